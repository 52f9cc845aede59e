"""The coordinators of one kind on this SPU, by the partitions of the internal topic that it leads.

Without such partitions the modules of coordinators are not imported. Most SPUs start without them.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.cluster.coordinators import partition_of
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .coordination_context import CoordinationContext

if TYPE_CHECKING:
    from .coordinated_partition import CoordinatedPartition
    from .coordinator_kind import CoordinatorKind, HostedCoordinator
    from .coordinator_output import Waiter
    from .moment import Moment

C = TypeVar("C", bound="HostedCoordinator")

LOAD_AGAIN_SECONDS = 1.0
"""How long to wait before a failed import of the modules of coordinators is retried."""

HELD_SECONDS_MAX = 5.0
"""How long a request may wait until its coordinator is loaded; clients wait much longer for the response to a
JoinGroup."""
HELD_REQUESTS_MAX = 1000
HELD_BYTES_MAX = 64 << 20
"""How many requests may wait for loading at the same time, and their size in bytes."""


class Coordination(Generic[C]):
    def __init__(self, replicas: ReplicaRegistry, context: CoordinationContext, kind: "CoordinatorKind[C]") -> None:
        self._replicas = replicas
        self._context = context
        self._kind = kind
        self._names = kind.names
        self._partitions: dict[int, CoordinatedPartition[C]] = {}
        self._load_lock = trio.Lock()
        self._held: dict[_HeldRequest, None] = {}
        """The requests that wait until their coordinators are loaded, in the order of their arrival."""
        replicas.role_watchers[self._names.topic] = self._on_role

    # called by handlers and metrics

    def ask(
        self, key: str, waiter: "Waiter", call: "Callable[[C, Moment], None]", held_bytes: int | None = None
    ) -> None:
        """Calls `call` with the coordinator of the key. The waiter gets a response or a refusal, now or later.

        `held_bytes` is the size of a request that may wait until the coordinator is loaded; None if it is refused at
        once.
        """
        try:
            partition = self._coordinating(key)
        except KafkaError as error:
            is_loading = error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if held_bytes is None or not is_loading or not self._has_room_for(held_bytes):
                waiter.refuse(error)
            else:
                held = _HeldRequest(key, waiter, call, held_bytes, self._release)
                self._held[held] = None
                self._context.deadlines.add(trio.current_time() + HELD_SECONDS_MAX, held)
        else:
            partition.ask(waiter, call)

    def replica_of(self, key: str) -> Replica:
        """Returns the replica that has the records of the key. Raises KafkaError unless this SPU coordinates it."""
        return self._coordinating(key).replica

    def partitions(self) -> Iterator["CoordinatedPartition[C]"]:
        """Yields all coordinated partitions, even those that are still being loaded."""
        return iter(self._partitions.values())

    def loaded(self) -> Iterator["CoordinatedPartition[C]"]:
        """Yields the coordinated partitions that are loaded."""
        return (partition for partition in self._partitions.values() if partition.is_loaded)

    @property
    def is_loading(self) -> bool:
        """Whether this SPU is about to coordinate partitions that are not loaded yet."""
        return any(not each.is_loaded and each.failure is None for each in self._partitions.values()) or any(
            replica is not None and replica.is_recovering and replica.offline_reason is None
            for replica in self._local_replicas()
        )

    @property
    def _topic(self) -> TopicSpec | None:
        return self._context.cluster.topics.get(self._names.topic)

    def _local_replicas(self) -> Iterator[Replica | None]:
        topic = self._topic
        return (self._replicas.find(topic.name, spec.partition) for spec in topic.partitions) if topic else iter(())

    def _coordinating(self, key: str) -> "CoordinatedPartition[C]":
        topic = self._topic
        if topic is None:
            raise self._names.not_coordinator()
        number = partition_of(key, len(topic.partitions))
        partition = self._partitions.get(number)
        if partition is None:
            raise self._names.loading() if self._will_coordinate(number) else self._names.not_coordinator()
        if partition.failure is not None:
            raise self._names.not_loaded(partition.failure)
        if not partition.is_loaded:
            if not self._context.is_sure_to_lead(partition.replica):
                # A client that waited for this load would go on with what it knows: a member with its old assignment.
                raise self._names.not_coordinator()
            raise self._names.loading()
        return partition

    def _will_coordinate(self, number: int) -> bool:
        """Returns whether this SPU leads the partition and only has to recover its log.

        Clients then wait as they do for the loading. If they were told to look for another coordinator, they would find
        this SPU again, and librdkafka would report an error to its user.
        """
        replica = self._replicas.find(self._names.topic, number)
        return (
            replica is not None
            and replica.is_leader
            and replica.is_recovering
            and replica.offline_reason is None
            and self._context.is_sure_to_lead(replica)
        )

    # requests that wait for the loading

    def _has_room_for(self, size_bytes: int) -> bool:
        held_bytes = sum(each.size_bytes for each in self._held)
        return len(self._held) < HELD_REQUESTS_MAX and held_bytes + size_bytes <= HELD_BYTES_MAX

    def _ask_again(self) -> None:
        """Hands held requests on if they need not wait any longer."""
        for held in list(self._held):
            if not held.done and not self._must_wait_for(held.key):
                self._release(held)

    def _must_wait_for(self, key: str) -> bool:
        """Returns whether the coordinator of the key is still being loaded here."""
        try:
            self._coordinating(key)
        except KafkaError as error:
            return error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return False

    def _release(self, held: "_HeldRequest") -> None:
        """Hands a held request on; if its coordinator is still not loaded, it is refused."""
        held.done = True
        del self._held[held]
        self.ask(held.key, held.waiter, held.call)

    # events

    def _on_role(self, replica: Replica) -> None:
        """Loads or unloads the coordinator of a replica whose role or epoch has changed."""
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

    def restart(self, partition: "CoordinatedPartition[C]") -> None:
        """Loads the partition again from its log, because its state in memory may be incomplete."""
        if self._partitions.get(partition.replica.partition) is partition:
            del self._partitions[partition.replica.partition]
            partition.end()
            self._load(partition.replica)

    def _load(self, replica: Replica) -> None:
        try:
            from .coordinated_partition import CoordinatedPartition

            partition = CoordinatedPartition(replica, self._context, self._kind, self.restart)
        except OSError as error:  # most likely no file can be opened at the moment; the log was not read yet
            self._kind.on_not_loaded(self._context.logger, partition=replica.partition, reason=str(error))
            self._context.nursery.start_soon(self._load_later, replica)
            return
        self._partitions[replica.partition] = partition
        self._context.nursery.start_soon(self._load_alone, partition)

    async def _load_later(self, replica: Replica) -> None:
        await trio.sleep(LOAD_AGAIN_SECONDS)
        self._on_role(replica)

    async def _load_alone(self, partition: "CoordinatedPartition[C]") -> None:
        """Loads the partition while no other one loads, so that the first ones are ready early and memory use is
        small."""
        async with self._load_lock:
            await partition.load()
        if self._held:
            self._ask_again()
            self._context.end_turn()


class _HeldRequest:
    """A request that waits until its coordinator is loaded."""

    __slots__ = ("_on_expired", "call", "done", "key", "size_bytes", "waiter")

    def __init__(
        self,
        key: str,
        waiter: "Waiter",
        call: "Callable[[Any, Moment], None]",
        size_bytes: int,
        on_expired: Callable[["_HeldRequest"], None],
    ) -> None:
        self.key = key
        self.waiter = waiter
        self.call = call
        self.size_bytes = size_bytes
        self.done = False
        self._on_expired = on_expired

    def on_deadline(self) -> None:
        self._on_expired(self)
