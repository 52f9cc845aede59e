"""A Streaming Controller without waiting: its actions come back as events, in an order that the test chooses.

What is real: the Metadata Dispatcher and all below it. What is a model: a KV store with compare-and-set, the queues
between, and SPUs that report each partition that they are told to lead. Writes and events of one source keep their
order; between sources anything goes.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.controller.objects.objects import (
    DeletedTopic,
    Object,
    Partition,
    PartitionResolution,
    PublicListener,
    ReplicaMap,
    Spu,
    SpuGroup,
    SpuGroupSpec,
    SpuSpec,
    Topic,
    TopicSpec,
    TopicStatus,
)
from tailrace.controller.state.actions import (
    Action,
    AddPartition,
    AddSpu,
    AskLogEnd,
    AwaitLeader,
    Delete,
    DeletePartition,
    DeleteSpu,
    Provision,
    Put,
    Terminate,
    UpdatePartition,
    UpdateSpu,
)
from tailrace.controller.state.cluster_mirror import ClusterMirror
from tailrace.controller.state.events import (
    Event,
    LeaderSilent,
    LeaseGracePeriodOver,
    LiveReplicasReported,
    LogEndsReported,
    ReconciliationDue,
    Removed,
    ShelvesReported,
    SpuConnected,
    SpuLost,
    StorageReported,
    Stored,
)
from tailrace.controller.state.local_store import LocalStore, PartitionKey
from tailrace.controller.state.object_codec import key_of
from tailrace.controller.state.observed import Observed
from tailrace.controller.workflow.metadata_dispatcher import MetadataDispatcher, controllers_over
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.runtime.network import Address

O = TypeVar("O", bound=Object)  # noqa: E741


def address(spu: int, port: int = 9006) -> Address:
    return Address(f"spu-{spu}", port)


def listener(spu: int) -> PublicListener:
    return PublicListener("PUBLIC", f"spu-{spu}", 9005)


def custom(spu: int, rack: str | None = None) -> Spu:
    return Spu(SpuSpec(SpuId(spu), rack=rack))


def group(name: str, replicas: int, min_id: int) -> SpuGroup:
    return SpuGroup(name, SpuGroupSpec(replicas, SpuId(min_id)))


def topic_id(number: int) -> TopicId:
    return UUID(int=number, version=4)


def topic(
    name: str, partitions: int = 1, factor: int = 1, rows: Mapping[int, tuple[int, ...]] | None = None, number: int = 1
) -> Topic:
    chosen: ReplicaMap = {key: tuple(map(SpuId, row)) for key, row in (rows or {}).items()}
    return Topic(name, topic_id(number), TopicSpec(partitions, factor, chosen))


def connected(spu: int, incarnation: str = "first", store: str | None = None) -> SpuConnected:
    """By default, a new process of an SPU may have lost something."""
    return SpuConnected(SpuId(spu), incarnation, store or incarnation, (listener(spu),), address(spu))


def reported(
    partition: Partition, members: tuple[tuple[SpuId, str], ...] = (), *, has_taken_over: bool = False
) -> LiveReplicasReported:
    """A report of live replicas by the partition's leader."""
    status = partition.status
    return LiveReplicasReported(
        status.leader,
        status.incarnation,
        partition.topic_id,
        partition.number,
        status.epoch,
        status.live_version,
        members,
        has_taken_over,
    )


def lost(spu: int, incarnation: str = "first") -> SpuLost:
    return SpuLost(SpuId(spu), incarnation, "its lease has expired")


def storage(spu: int, used_bytes: int, size_bytes: int, incarnation: str = "first") -> StorageReported:
    return StorageReported(SpuId(spu), incarnation, used_bytes >= size_bytes, used_bytes, size_bytes)


class Brain:
    """The state of an SC process, which a crash loses."""

    def __init__(self) -> None:
        self.store = LocalStore()
        self.observed = Observed()
        self.cluster = Cluster()
        self.mirror = ClusterMirror(self.store, self.cluster)
        self.dispatcher = MetadataDispatcher(
            self.store, self.observed, controllers_over(self.store, self.observed, BrokerConfigs({})), self.mirror
        )

    def on(self, *events: Event) -> list[Action]:
        return [action for event in events for action in self.dispatcher.on_event(event)]


class Written(Struct, frozen=True):
    """One version of an object in the KV store, or its removal."""

    key: str
    object: Object | None
    stores: Mapping[int, str]
    """The incarnation of each SPU's store at the time of the write."""


class ModelStore:
    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.revision = 0
        self.history: list[Written] = []
        self.stores: dict[int, str] = {}
        """The incarnation of each SPU's store. It is noted with each write, but not stored."""

    def put(self, wanted: Object) -> Stored | None:
        key = key_of(wanted)
        before = self.objects.get(key)
        if (0 if before is None else before.version) != wanted.version:
            return None
        self.revision += 1
        now = replace(wanted, version=self.revision)
        self.objects[key] = now
        self.history.append(Written(key, now, dict(self.stores)))
        return Stored(now)

    def delete(self, unwanted: Object) -> Removed | None:
        key = key_of(unwanted)
        before = self.objects.get(key)
        if before is None or before.version != unwanted.version:
            return None
        self.revision += 1
        del self.objects[key]
        self.history.append(Written(key, None, dict(self.stores)))
        return Removed(key, self.revision)

    def all_of(self, kind: type[O]) -> list[O]:
        return [found for found in self.objects.values() if isinstance(found, kind)]

    def get(self, kind: type[O], key: str) -> O:
        found = self.objects[key]
        assert isinstance(found, kind)
        return found

    def history_of(self, kind: type[O]) -> list[O]:
        return [each.object for each in self.history if isinstance(each.object, kind)]


class ModelSc:
    def __init__(self) -> None:
        self.kv = ModelStore()
        self.running: dict[int, str] = {}
        """The running SPUs, and the incarnation of each."""
        self.stores = self.kv.stores
        self.store_of: dict[tuple[int, str], str] = {}
        """The incarnation of the store, by SPU and process."""
        self.log_ends: dict[int, int] = {}
        """The log end of each SPU; 0 by default."""
        self.mute: set[int] = set()
        """SPUs that do not report their log ends."""
        self.busy: set[int] = set()
        """SPUs that respond that they will report their log ends later."""
        self.mute_elected: set[int] = set()
        """SPUs that do not report that they lead."""
        self.leading: dict[PartitionKey, LiveReplicasReported] = {}
        """The last report of each leader, which it repeats to another SC."""
        self.provisioned: dict[int, SpuSpec] = {}
        self.provisions = 0
        self.actions: list[Action] = []
        self.events: list[Event] = []
        """All events since the SC started, for a replay."""
        self._begin()

    def _begin(self) -> None:
        self.brain = Brain()
        self.from_store: deque[Event] = deque(Stored(self.kv.objects[key]) for key in sorted(self.kv.objects))
        self.listing_left = len(self.from_store)
        """The number of objects that the SC has not listed yet. It reconciles nothing before it knows all."""
        self.from_connections: deque[Event] = deque()
        self.writes: deque[Put | Delete] = deque()
        self.questions: deque[AskLogEnd] = deque()
        self.awaited: list[AwaitLeader] = []
        self.admitted: set[int] = set()
        self.told: dict[PartitionKey, Partition] = {}
        self.events.clear()
        self.actions.clear()

    # what the world does

    def crash(self) -> None:
        """Replaces the SC by another one, to which the SPUs connect."""
        self._begin()
        for spu in self.running:
            self.from_connections.append(self._connected(spu))
        self.from_connections.extend(report for report in self.leading.values() if report.spu in self.running)

    def write(self, wanted: Object) -> None:
        """Writes an object at once, on its newest version, as the Administration does."""
        before = self.kv.objects.get(key_of(wanted))
        event = self.kv.put(replace(wanted, version=0 if before is None else before.version))
        assert event is not None
        self.from_store.append(event)

    def remove(self, unwanted: Object) -> None:
        event = self.kv.delete(self.kv.objects[key_of(unwanted)])
        assert event is not None
        self.from_store.append(event)

    def touch(self, key: str) -> None:
        """Writes the object just before the SC does, so that the SC's compare-and-set fails."""
        self.write(self.kv.objects[key])

    def start_spu(self, spu: int, incarnation: str = "first", store: str | None = None) -> None:
        self.running[spu] = incarnation
        self.stores[spu] = self.store_of[spu, incarnation] = store or incarnation
        self.from_connections.append(self._connected(spu))

    def stop_spu(self, spu: int) -> None:
        self.from_connections.append(lost(spu, self.running.pop(spu)))

    def delete_topic(self, name: str) -> None:
        found = self.kv.get(Topic, f"topic/{name}")
        self.write(DeletedTopic(replace(found, version=0), 0))
        self.remove(found)

    def undelete_topic(self, found: TopicId) -> None:
        deleted = self.kv.get(DeletedTopic, f"deleted-topic/{found}")
        self.write(deleted.topic)
        self.remove(deleted)

    def grow_topic(self, name: str, partitions: int) -> None:
        found = self.kv.get(Topic, f"topic/{name}")
        self.write(replace(found, spec=replace(found.spec, partitions=partitions)))

    def scale(self, name: str, replicas: int) -> None:
        found = self.kv.get(SpuGroup, f"spu-group/{name}")
        self.write(replace(found, spec=replace(found.spec, replicas=replicas)))

    def _connected(self, spu: int) -> SpuConnected:
        return connected(spu, self.running[spu], self.stores[spu])

    # what happens next

    def enabled(self) -> list[Callable[[], None]]:
        steps: list[tuple[bool, Callable[[], None]]] = [
            (bool(self.from_store), self.deliver_from_store),
            (bool(self.from_connections), self.deliver_from_connections),
            (bool(self.writes), self.carry_out_a_write),
            (bool(self.questions), self.answer_a_question),
        ]
        return [step for is_possible, step in steps if is_possible]

    def deliver_from_store(self) -> None:
        self.listing_left -= 1
        self.deliver(self.from_store.popleft())

    def deliver_from_connections(self) -> None:
        self.deliver(self.from_connections.popleft())

    def carry_out_a_write(self) -> None:
        write = self.writes.popleft()
        event = self.kv.put(write.object) if isinstance(write, Put) else self.kv.delete(write.object)
        if event is not None:
            self.from_store.append(event)

    def answer_a_question(self) -> None:
        asked = self.questions.popleft()
        key = (asked.topic_id, asked.number)
        is_busy = asked.spu in self.busy
        answers = self.running.get(asked.spu) == asked.incarnation and asked.spu not in self.mute and not is_busy
        ends = {key: self.log_ends.get(asked.spu, 0)} if answers else {}
        self.deliver(LogEndsReported(asked.spu, asked.incarnation, {key: asked.epoch}, ends, is_busy))

    def wait_for_leaders(self) -> None:
        """Lets the time for the report of an elected leader expire."""
        awaited, self.awaited = self.awaited, []
        for each in awaited:
            found = self.brain.store.partitions.get((each.topic_id, each.number))
            wanted = (PartitionResolution.CANDIDATE_FOUND, each.epoch)
            if found is not None and (found.status.resolution, found.status.epoch) == wanted:
                self.deliver(LeaderSilent(each.spu, each.incarnation, each.topic_id, each.number, each.epoch))

    def lose_a_write(self) -> None:
        self.writes.popleft()

    def deliver(self, event: Event) -> list[Action]:
        self.events.append(event)
        actions = self.brain.on(event)
        for action in actions:
            self._take(action)
        return actions

    def settle(self) -> None:
        """Carries out everything that follows, until nothing is left."""
        for _ in range(100_000):
            steps = self.enabled()
            if not steps:
                return
            for step in steps:
                step()
        raise AssertionError("it does not come to rest")

    def reconcile(self) -> list[Action]:
        assert self.listing_left <= 0
        return self.deliver(ReconciliationDue())

    def end_first_lease(self) -> None:
        self.deliver(LeaseGracePeriodOver())

    def _take(self, action: Action) -> None:
        self.actions.append(action)
        match action:
            case Put() | Delete():
                self.writes.append(action)
            case AskLogEnd():
                if action not in self.questions:
                    self.questions.append(action)
            case AwaitLeader():
                if action not in self.awaited:
                    self.awaited.append(action)
            case AddSpu(spu):
                assert spu.spec.id not in self.admitted
                self.admitted.add(spu.spec.id)
            case UpdateSpu(spu):
                assert spu.spec.id in self.admitted
            case DeleteSpu(spu_id):
                self.admitted.remove(spu_id)
            case AddPartition(partition):
                assert (partition.topic_id, partition.number) not in self.told
                self._tell(partition)
            case UpdatePartition(partition):
                assert (partition.topic_id, partition.number) in self.told
                self._tell(partition)
            case DeletePartition(topic_id, number):
                del self.told[topic_id, number]
            case Provision(spu):
                self.provisioned[spu.spec.id] = spu.spec
                if spu.spec.id not in self.running:
                    self.provisions += 1
                    self.start_spu(spu.spec.id, f"provision {self.provisions}")
            case Terminate(spu_id):
                self.provisioned.pop(spu_id, None)
                if spu_id in self.running:
                    self.stop_spu(spu_id)

    def _tell(self, partition: Partition) -> None:
        """Lets a running leader report that it leads."""
        self.told[partition.topic_id, partition.number] = partition
        status = partition.status
        before = self.leading.get((partition.topic_id, partition.number))
        is_news = before is None or before.epoch < status.epoch
        if is_news and self.running.get(status.leader) == status.incarnation and status.leader not in self.mute_elected:
            self.report(partition, ())

    def report(self, partition: Partition, live: tuple[SpuId, ...], *, has_taken_over: bool = False) -> None:
        """Lets the leader propose live replicas and their stores. Without any, it only reports that it leads."""
        members = tuple((spu, self.stores.get(spu, "")) for spu in live)
        report = reported(partition, members, has_taken_over=has_taken_over)
        self.leading[partition.topic_id, partition.number] = report
        self.from_connections.append(report)

    def report_shelves(
        self, partition: Partition, *filled: tuple[int, int, int], shelved_from: int = 0, next_base: int = -1
    ) -> None:
        """Lets the leader report shelves; `filled` has the base of a shelf, an SPU, and the end of its copy."""
        status = partition.status
        ends = tuple((base, SpuId(spu), end) for base, spu, end in filled)
        self.from_connections.append(
            ShelvesReported(
                status.leader,
                status.incarnation,
                partition.topic_id,
                partition.number,
                status.epoch,
                shelved_from,
                ends,
                next_base,
            )
        )

    # what came of it

    def topic(self, name: str) -> Topic:
        return self.kv.get(Topic, f"topic/{name}")

    def status_of(self, name: str) -> TopicStatus:
        return self.topic(name).status

    def partition(self, topic_number: int, number: int = 0) -> Partition:
        return self.kv.get(Partition, f"partition/{topic_id(topic_number)}/{number}")

    def spu(self, spu: int) -> Spu:
        return self.kv.get(Spu, f"spu/{spu}")

    def group(self, name: str) -> SpuGroup:
        return self.kv.get(SpuGroup, f"spu-group/{name}")


def model(*spus: int) -> ModelSc:
    """Makes a world with these custom SPUs registered and online."""
    sc = ModelSc()
    for spu in spus:
        sc.write(custom(spu))
        sc.start_spu(spu)
    sc.settle()
    return sc
