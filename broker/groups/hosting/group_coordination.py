"""Which groups are coordinated here: those of the partitions of the internal topic that this SPU leads.

Where there are none, the modules that know what groups are do not get loaded: most brokers start without.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.cluster.coordinators import GROUPS_TOPIC, partition_of
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .group_context import GroupContext, not_coordinator

if TYPE_CHECKING:
    from tailrace.broker.groups.common.coordinator_output import Waiter
    from tailrace.broker.groups.common.group import Group
    from tailrace.broker.groups.offsets.committed_offsets import CommittedOffsets

    from .group_partition import Call, GroupPartition

LOAD_AGAIN_SECONDS = 1.0


class GroupCoordination:
    def __init__(self, replicas: ReplicaRegistry, context: GroupContext) -> None:
        self._replicas = replicas
        self._context = context
        self._partitions: dict[int, GroupPartition] = {}
        self._one_loads = trio.Lock()
        replicas.role_watchers[GROUPS_TOPIC] = self._on_role
        context.cluster.gone_watchers.append(self._on_topic_gone)

    # what is asked

    def ask(self, group_id: str, waiter: "Waiter", call: "Call") -> None:
        """Has the group's coordinator called; the waiter is answered or refused, now or later."""
        try:
            partition = self._coordinating(group_id)
        except KafkaError as error:
            waiter.refuse(error)
        else:
            partition.ask(waiter, call)

    def loaded(self) -> Iterator["GroupPartition"]:
        """The partitions whose groups are known here."""
        return (partition for partition in self._partitions.values() if partition.is_loaded)

    def groups(self) -> Iterator["Group"]:
        """All that are known here."""
        return (group for partition in self.loaded() for group in partition.coordinator.groups.values())

    def committed(self) -> list["CommittedOffsets"]:
        """For each partition what its groups have committed."""
        return [partition.coordinator.offsets.committed for partition in self.loaded()]

    @property
    def is_loading(self) -> bool:
        """Whether there are groups that this SPU is to coordinate, and does not know yet."""
        return any(not each.is_loaded and each.failure is None for each in self._partitions.values()) or any(
            replica is not None and replica.is_recovering and replica.offline_reason is None
            for replica in self._replicas_here()
        )

    def _replicas_here(self) -> Iterator[Replica | None]:
        topic = self._context.cluster.topics.get(GROUPS_TOPIC)
        return (self._replicas.find(GROUPS_TOPIC, spec.partition) for spec in (topic.partitions if topic else ()))

    def _coordinating(self, group_id: str) -> "GroupPartition":
        topic = self._context.cluster.topics.get(GROUPS_TOPIC)
        if topic is None:
            raise not_coordinator()
        number = partition_of(group_id, len(topic.partitions))
        partition = self._partitions.get(number)
        if partition is None:
            raise self._loading() if self._will_coordinate(number) else not_coordinator()
        if partition.failure is not None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the groups were not loaded: {partition.failure}")
        if not partition.is_loaded:
            if not self._context.is_sure_to_lead(partition.replica):
                raise not_coordinator()  # a member that waits for the groups here would go on with what it has
            raise self._loading()
        return partition

    def _will_coordinate(self, number: int) -> bool:
        """Whether all that is missing is what the leader before left. Clients wait for that as for the loading; to be
        sent on, to nobody else than this SPU, is an error of which librdkafka tells its user."""
        replica = self._replicas.find(GROUPS_TOPIC, number)
        return (
            replica is not None
            and replica.is_leader
            and replica.is_recovering
            and replica.offline_reason is None
            and self._context.is_sure_to_lead(replica)
        )

    def _loading(self) -> KafkaError:
        return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the groups are being loaded")

    # what happened

    def _on_role(self, replica: Replica) -> None:
        """A replica of the internal topic began to lead, ended, or does so at another epoch."""
        number = replica.partition
        here = self._partitions.get(number)
        if here is not None:
            if here.replica is not replica and not replica.is_recovered_leader:
                return  # of a topic that was deleted, and created again since
            if here.replica is replica and here.epoch == replica.spec.epoch and replica.is_recovered_leader:
                return
            del self._partitions[number]
            here.end()
        if replica.is_recovered_leader:
            self._load(replica)

    def _on_topic_gone(self, topic: TopicSpec) -> None:
        for partition in self._partitions.values():
            partition.on_topic_gone(topic)

    def restart(self, partition: "GroupPartition") -> None:
        """What is in memory may be half of what was to be: the log knows."""
        if self._partitions.get(partition.replica.partition) is partition:
            del self._partitions[partition.replica.partition]
            partition.end()
            self._load(partition.replica)

    def _load(self, replica: Replica) -> None:
        try:
            from .group_partition import GroupPartition
        except OSError as error:  # no file can be opened now, most likely: of the log nothing was read yet
            self._context.logger.error("groups_not_loaded", partition=replica.partition, reason=str(error))
            self._context.nursery.start_soon(self._load_later, replica)
            return
        partition = self._partitions[replica.partition] = GroupPartition(replica, self._context, self.restart)
        self._context.nursery.start_soon(self._load_alone, partition)

    async def _load_later(self, replica: Replica) -> None:
        await trio.sleep(LOAD_AGAIN_SECONDS)
        self._on_role(replica)

    async def _load_alone(self, partition: "GroupPartition") -> None:
        """One after the other, so that the first ones are there early, and what is read lies in memory once."""
        async with self._one_loads:
            await partition.load()
