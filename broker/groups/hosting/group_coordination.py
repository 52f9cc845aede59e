"""The groups that this SPU coordinates, by the partitions of `__consumer_offsets` it leads.

Without such partitions the modules of groups are not imported. Most SPUs start without them.
"""

from collections.abc import Callable, Iterator
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
"""How long to wait before a failed import of the group modules is retried."""


HELD_SECONDS_MAX = 5.0
"""How long a request may wait until groups are loaded; clients wait much longer for the response to a JoinGroup."""
HELD_REQUESTS_MAX = 1000
HELD_BYTES_MAX = 64 << 20
"""How many requests may wait for the loading of groups at the same time, and their size in bytes."""


class GroupCoordination:
    def __init__(self, replicas: ReplicaRegistry, context: GroupContext) -> None:
        self._replicas = replicas
        self._context = context
        self._partitions: dict[int, GroupPartition] = {}
        self._load_lock = trio.Lock()
        self._held: dict[_HeldRequest, None] = {}
        """The requests that wait until their groups are loaded, in the order of their arrival."""
        replicas.role_watchers[GROUPS_TOPIC] = self._on_role
        context.cluster.gone_watchers.append(self._on_topic_deleted)

    # called by handlers and metrics

    def ask(self, group_id: str, waiter: "Waiter", call: "Call", held_bytes: int | None = None) -> None:
        """Calls `call` with the coordinator of the group. The waiter gets a response or a refusal, now or later.

        `held_bytes` is the size of a request that may wait until the group is loaded; None if it is refused at once.
        """
        try:
            partition = self._coordinating(group_id)
        except KafkaError as error:
            is_loading = error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if held_bytes is None or not is_loading or not self._has_room_for(held_bytes):
                waiter.refuse(error)
            else:
                held = _HeldRequest(group_id, waiter, call, held_bytes, self._release)
                self._held[held] = None
                self._context.deadlines.add(trio.current_time() + HELD_SECONDS_MAX, held)
        else:
            partition.ask(waiter, call)

    def loaded(self) -> Iterator["GroupPartition"]:
        """Yields the group partitions that are loaded."""
        return (partition for partition in self._partitions.values() if partition.is_loaded)

    def groups(self) -> Iterator["Group"]:
        """Yields all loaded groups."""
        return (group for partition in self.loaded() for group in partition.coordinator.groups.values())

    def committed(self) -> list["CommittedOffsets"]:
        """Returns the committed offsets of each loaded group partition."""
        return [partition.coordinator.offsets.committed for partition in self.loaded()]

    @property
    def is_loading(self) -> bool:
        """Whether this SPU is about to coordinate groups that are not loaded yet."""
        return any(not each.is_loaded and each.failure is None for each in self._partitions.values()) or any(
            replica is not None and replica.is_recovering and replica.offline_reason is None
            for replica in self._local_replicas()
        )

    def _local_replicas(self) -> Iterator[Replica | None]:
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
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the groups could not be loaded: {partition.failure}"
            )
        if not partition.is_loaded:
            if not self._context.is_sure_to_lead(partition.replica):
                raise not_coordinator()  # a member that waited for this load would go on with its old assignment
            raise self._loading()
        return partition

    def _will_coordinate(self, number: int) -> bool:
        """Returns whether this SPU leads the partition and only has to recover its log.

        Clients then wait as they do for the loading. If they were told to look for another coordinator, they would find
        this SPU again, and librdkafka would report an error to its user.
        """
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

    # requests that wait for the loading

    def _has_room_for(self, size_bytes: int) -> bool:
        held_bytes = sum(each.size_bytes for each in self._held)
        return len(self._held) < HELD_REQUESTS_MAX and held_bytes + size_bytes <= HELD_BYTES_MAX

    def _ask_again(self) -> None:
        """Hands held requests on if they need not wait any longer."""
        for held in list(self._held):
            if not held.done and not self._must_wait_for(held.group_id):
                self._release(held)

    def _must_wait_for(self, group_id: str) -> bool:
        """Returns whether the group is still being loaded here."""
        try:
            self._coordinating(group_id)
        except KafkaError as error:
            return error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return False

    def _release(self, held: "_HeldRequest") -> None:
        """Hands a held request on; if its group is still not loaded, it is refused."""
        held.done = True
        del self._held[held]
        self.ask(held.group_id, held.waiter, held.call)

    # events

    def _on_role(self, replica: Replica) -> None:
        """Loads or unloads the groups of a replica of `__consumer_offsets` whose role or epoch has changed."""
        number = replica.partition
        loaded = self._partitions.get(number)
        if loaded is not None:
            if loaded.replica is not replica and not replica.is_recovered_leader:
                return  # the replica belongs to an earlier topic of this name
            if loaded.replica is replica and loaded.epoch == replica.spec.epoch and replica.is_recovered_leader:
                return
            del self._partitions[number]
            loaded.end()
        if replica.is_recovered_leader:
            self._load(replica)
        if self._held:
            self._ask_again()

    def _on_topic_deleted(self, topic: TopicSpec) -> None:
        for partition in self._partitions.values():
            partition.on_topic_deleted(topic)

    def restart(self, partition: "GroupPartition") -> None:
        """Loads the partition again from its log, because its state in memory may be incomplete."""
        if self._partitions.get(partition.replica.partition) is partition:
            del self._partitions[partition.replica.partition]
            partition.end()
            self._load(partition.replica)

    def _load(self, replica: Replica) -> None:
        try:
            from .group_partition import GroupPartition
        except OSError as error:  # most likely no file can be opened at the moment; the log was not read yet
            self._context.logger.error("groups_not_loaded", partition=replica.partition, reason=str(error))
            self._context.nursery.start_soon(self._load_later, replica)
            return
        partition = self._partitions[replica.partition] = GroupPartition(replica, self._context, self.restart)
        self._context.nursery.start_soon(self._load_alone, partition)

    async def _load_later(self, replica: Replica) -> None:
        await trio.sleep(LOAD_AGAIN_SECONDS)
        self._on_role(replica)

    async def _load_alone(self, partition: "GroupPartition") -> None:
        """Loads the partition while no other one loads, so that the first ones are ready early and memory use is
        small."""
        async with self._load_lock:
            await partition.load()
        if self._held:
            self._ask_again()
            self._context.end_turn()


class _HeldRequest:
    """A request that waits until its group is loaded."""

    __slots__ = ("_on_expired", "call", "done", "group_id", "size_bytes", "waiter")

    def __init__(
        self,
        group_id: str,
        waiter: "Waiter",
        call: "Call",
        size_bytes: int,
        on_expired: Callable[["_HeldRequest"], None],
    ) -> None:
        self.group_id = group_id
        self.waiter = waiter
        self.call = call
        self.size_bytes = size_bytes
        self.done = False
        self._on_expired = on_expired

    def on_deadline(self) -> None:
        self._on_expired(self)
