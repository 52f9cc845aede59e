"""Stores that replicate one partition: the real controllers on real logs, joined by a wire that a test can cut.

Every message goes through its bytes. The Streaming Controller is a few lines here: it stores what leaders propose, and
elects whom the test says.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog
import trio
from logs import log_at
from msgspec import Struct, field
from msgspec.structs import replace
from simulation.files import Keep, SimulatedFiles
from simulation.network import MemoryNetwork

from tailrace.broker.controller_link.live_replica_reporter import LiveReplicaReporter
from tailrace.broker.copies.bulk_copies import BulkPortion
from tailrace.broker.peers import peer_codec
from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.peers.peer_messages import FetchEntries, PeerIdentity, PeerMessage, RecordsToSend
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.copying import CopyLimits, CopyRequest, CopyResponse
from tailrace.broker.replication.messages import Hello
from tailrace.broker.roles.replica_info_dispatcher import ReplicaInfoDispatcher
from tailrace.broker.roles.role_context import RoleContext
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import NO_LEADER, PartitionSpec, SpuSpec
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId, TopicId
from tailrace.protocol.internal.report_live_replicas import ReportLiveReplicasRequest, ReportLiveReplicasResponse
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.directories import make_directories_durably
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark
from tailrace.storage.directory.promises import Promises
from tailrace.storage.log.log import Log

TOPIC = TopicId(int=7)
KEY: ReplicaKey = (TOPIC, 0)


class WirePeers:
    """Replaces `PeerLinks`: every store is reached at once."""

    def __init__(self, wire: "Wire", identity: PeerIdentity) -> None:
        self.wire = wire
        self.identity = identity
        self.followed: dict[SpuId, int] = {}
        self.hellos: dict[SpuId, Hello] = {}
        self.slow: set[SpuId] = set()
        """What these are told has to wait."""
        self.copied: list[SpuId] = []
        """The SPUs to which batches were sent as copies."""

    def keeps_up(self, spu: SpuId) -> bool:
        return spu not in self.slow

    def send_to_follower(
        self, spu: SpuId, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None
    ) -> None:
        if isinstance(records, bytes):
            self.copied.append(spu)
        self.wire.send(self.identity, spu, key, message, records, from_leader=True)

    def send_to_leader(
        self, spu: SpuId, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None
    ) -> None:
        self.wire.send(self.identity, spu, key, message, records, from_leader=False)

    def flush(self) -> None:
        self.wire.wake()

    def forget(self, key: ReplicaKey) -> None:
        pass

    def take_hellos(self, key: ReplicaKey) -> Sequence[Hello]:
        return list(self.hellos.values())

    def follow(self, spu: SpuId) -> None:
        self.followed[spu] = self.followed.get(spu, 0) + 1

    def unfollow(self, spu: SpuId) -> None:
        self.followed[spu] -= 1

    def is_linked(self, spu: SpuId, *, from_leader: bool) -> bool:
        return self.wire.reaches(self.identity.spu, spu)


class WireCopies:
    """Replaces `RemoteBulkCopies`."""

    def __init__(self, wire: "Wire", spu: SpuId) -> None:
        self._wire = wire
        self._spu = spu

    def limits(self, replica: Replica) -> CopyLimits | None:
        return self._wire.copy_limits

    async def fetch(self, replica: Replica, asked: CopyRequest) -> BulkPortion:
        wire, store = self._wire, self._wire.stores.get(asked.source)
        await trio.sleep(wire.portion_seconds)
        wire.portions_left -= 1
        if store is None or wire.portions_left < 0 or not wire.reaches(self._spu, asked.source):
            return CopyResponse(asked, failure="it is not there"), None
        end = store.replica.high_watermark
        found = store.log.read(asked.offset, asked.bytes_max, end, at_least_one=True)
        if found is None:
            return CopyResponse(asked, (), end), None
        wire.handed_over.add(asked.source)
        entries, received = peer_codec.read_batches(memoryview(found.read()), asked.epoch, asked.offset, None)
        return CopyResponse(asked, entries, end), received


class Store(Struct):
    spu: SpuId
    wire: "Wire"
    files: SimulatedFiles
    process: str
    incarnation: str
    replica: Replica
    dispatcher: ReplicaInfoDispatcher
    peers: WirePeers
    running: trio.CancelScope
    appended: dict[Replica, None]
    metrics: BrokerMetrics
    doubts: list[int]
    """The offsets from which the leader on this store suspected its log."""

    @property
    def log(self) -> Log:
        return self.replica.log

    def end_turn(self) -> None:
        appended = list(self.appended)
        self.appended.clear()
        for replica in appended:
            if replica.replication is not None and replica.is_leader and not replica.is_merging:
                replica.replication.on_appended()
        self.wire.wake()

    def values(self) -> list[bytes]:
        """Returns the values in the log, committed or not, without the batches that recovery wrote."""
        found = []
        for part in self.log.read_batches(self.log.log_start, self.log.log_end):
            data = part.file.read_at(part.position, part.count)
            position = 0
            while position < len(data):
                header = read_header(data, position)
                if not header.is_control:
                    found += [record.value or b"" for record in read_records(data[position : position + header.size])]
                position += header.size
        return found


class Wire(Struct):
    nursery: trio.Nursery
    configs: dict[str, str] = field(default_factory=dict)
    stores: dict[SpuId, Store] = field(default_factory=dict)
    spec: PartitionSpec = field(default_factory=lambda: PartitionSpec(TOPIC, "t", 0, NO_LEADER, NO_EPOCH, (), ()))
    deaf: set[SpuId] = field(default_factory=set)
    """The stores that the Streaming Controller does not reach."""
    told: int = 0
    """The number of messages sent."""
    cut: set[SpuId] = field(default_factory=set)
    """The stores that reach no other store, and are not reached."""
    _queue: deque[tuple[PeerIdentity, SpuId, bytes, bool]] = field(default_factory=deque)
    _woken: trio.Event = field(default_factory=trio.Event)
    _starts: int = 0
    refuses_proposals: bool = False
    copy_limits: CopyLimits | None = None
    portions_left: float = math.inf
    """How many more bulk copies succeed; later ones are lost."""
    portion_seconds: float = 0.0
    """The duration of one bulk copy."""
    handed_over: set[SpuId] = field(default_factory=set)
    """The stores that served bulk copies."""
    hands_over: float = math.inf
    """How many more requests of a recovering leader arrive; later ones are lost."""

    # the network

    def reaches(self, one: SpuId, other: SpuId) -> bool:
        return one not in self.cut and other not in self.cut and {one, other} <= self.stores.keys()

    def send(
        self,
        sender: PeerIdentity,
        to: SpuId,
        key: ReplicaKey,
        message: PeerMessage,
        records: RecordsToSend | None,
        *,
        from_leader: bool,
    ) -> None:
        self.told += 1
        if not self.reaches(sender.spu, to):
            return
        if isinstance(message, FetchEntries):
            self.hands_over -= 1
            if self.hands_over < 0:
                return
        data = (
            b"".join(each.file.read_at(each.position, each.count) for each in records())
            if callable(records)
            else records
        )
        parts = peer_codec.encode(key, message, data)
        self._queue.append((sender, to, b"".join(bytes(part) for part in parts)[4:], from_leader))

    def wake(self) -> None:
        self._woken.set()

    async def deliver(self) -> None:
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._queue:
                sender, to, frame, from_leader = self._queue.popleft()
                store = self.stores.get(to)
                if store is None or not self.reaches(sender.spu, to):
                    continue
                told = peer_codec.decode_message(memoryview(frame), sender, from_leader=from_leader)
                assert told is not None
                key, message, batches = told
                if isinstance(message, Hello):
                    store.peers.hellos[sender.spu] = message
                store.dispatcher.on_message(sender.spu, from_leader, key, message, batches)
                store.end_turn()
                await trio.lowlevel.checkpoint()

    def part(self, spu: SpuId) -> None:
        """Cuts all links of a store, until `join`."""
        self.cut.add(spu)
        for store in self.stores.values():
            for other in self.stores:
                if spu in (store.spu, other) and store.spu != other:
                    store.dispatcher.on_unlinked(other, from_leader=True)
                    store.dispatcher.on_unlinked(other, from_leader=False)

    def join(self, spu: SpuId) -> None:
        self.cut.discard(spu)
        self._link(spu)

    def _link(self, spu: SpuId) -> None:
        for store in self.stores.values():
            for other in self.stores:
                if spu in (store.spu, other) and store.spu != other and self.reaches(store.spu, other):
                    store.dispatcher.on_linked(other, from_leader=True)

    # processes

    async def start(
        self,
        number: int,
        files: SimulatedFiles | None = None,
        incarnation: str | None = None,
        saved: SavedHighWatermark | None = None,
    ) -> Store:
        spu = SpuId(number)
        self._starts += 1
        disk = SimulatedFiles() if files is None else files
        await make_directories_durably(disk, "/data")
        promises = Promises(disk, "/data")
        incarnation = incarnation or f"store-{number}-{self._starts}"
        process = f"process-{self._starts}"
        cluster = Cluster()
        for each in range(1, 6):
            cluster.put_spu(SpuSpec(SpuId(each)))
        replicas = ReplicaRegistry(spu, cluster)
        settings = settings_of(self.configs, BrokerConfigs({}))
        log = log_at(disk, f"/data/topics/t/{TOPIC}/0", settings.log, clean=False)
        spec = replace(self.spec, replicas=self.spec.replicas or (spu, SpuId(99)), leader=NO_LEADER)
        replica = Replica(spu, spec, log, settings, *(saved or (log.log_start,)))
        replicas.add(replica)
        logger = structlog.get_logger().bind(spu=number)
        live_replicas = LiveReplicaReporter(replicas, BrokerMetrics(), logger)
        peers = WirePeers(self, PeerIdentity(spu, incarnation, process))
        deadlines = Deadlines()
        appended: dict[Replica, None] = {}
        doubts: list[int] = []
        metrics = BrokerMetrics()
        running = trio.CancelScope()
        started = trio.Event()
        made: list[ReplicaInfoDispatcher] = []

        async def run() -> None:
            with running:
                async with trio.open_nursery() as nursery:
                    made.append(
                        ReplicaInfoDispatcher(
                            RoleContext(
                                spu,
                                process,
                                incarnation,
                                promises,
                                peers,  # type: ignore[arg-type]
                                live_replicas,
                                cluster,
                                deadlines,
                                nursery,
                                lambda each: appended.update({each: None}),
                                lambda: self.stores[spu].end_turn(),
                                trio.current_time,
                                no_checkpoint,
                                lambda _: False,
                                lambda _, reason: nursery.start_soon(go_offline, replica, reason),
                                lambda each, offset: doubts.append(offset),
                                metrics,
                                logger,
                                WireCopies(self, spu),
                            )
                        )
                    )
                    nursery.start_soon(deadlines.run)
                    nursery.start_soon(live_replicas.run, self._report(spu))
                    started.set()

        self.nursery.start_soon(run)
        await started.wait()
        store = Store(
            spu, self, disk, process, incarnation, replica, made[0], peers, running, appended, metrics, doubts
        )
        self.stores[spu] = store
        self._link(spu)
        if spu in self.spec.replicas:
            await self._tell(store)
        return store

    def kill(self, number: int) -> Store:
        store = self.stores[SpuId(number)]
        self.part(store.spu)
        store.running.cancel()
        del self.stores[store.spu]
        self.cut.discard(store.spu)
        return store

    async def restart(self, store: Store, keep: Keep = "all", saved: SavedHighWatermark | None = None) -> Store:
        """Restarts a store. After a power failure that lost something, it has a new incarnation and is in doubt."""
        if keep == "all":
            return await self.start(store.spu, store.files.after_kill(), store.incarnation, saved)
        files = store.files.crash(keep)
        files.make_directories("/data")
        await Promises(files, "/data").doubt_all()
        return await self.start(store.spu, files)

    # the Streaming Controller

    def _report(self, spu: SpuId):  # type: ignore[no-untyped-def]
        async def report(message: ReportLiveReplicasRequest) -> ReportLiveReplicasResponse:
            await trio.lowlevel.checkpoint()
            for each in message.partitions:
                await self._on_report(each)
            return ReportLiveReplicasResponse(error_code=ErrorCode.NONE)

        return report

    async def _on_report(self, each) -> None:  # type: ignore[no-untyped-def]
        spec = self.spec
        if (each.epoch, each.version) != (spec.epoch, spec.version) or self.refuses_proposals:
            return
        live = dict(spec.live_incarnations)
        if each.members:
            named = {SpuId(member.spu_id): member.incarnation for member in each.members}
            if any(name and self.stores[spu].incarnation != name for spu, name in named.items()):
                named = live
            live = {spu: name or live[spu] for spu, name in named.items()}
        await self.tell(replace(spec, live_incarnations=live, live_replicas=tuple(live), version=spec.version + 1))

    async def tell(self, spec: PartitionSpec) -> None:
        self.spec = spec
        for store in list(self.stores.values()):
            await self._tell(store)

    async def _tell(self, store: Store) -> None:
        if store.spu not in self.cut | self.deaf:
            store.replica.use_spec(self.spec)
            await store.dispatcher.attend(store.replica)
            store.end_turn()

    def offline(self, number: int) -> None:
        """Reports a store as offline."""
        for store in self.stores.values():
            if store.spu not in self.cut | self.deaf:
                store.dispatcher.on_offline(SpuId(number))

    async def elect(self, number: int) -> Store:
        """Elects a leader with the next epoch and the current live set; at first all running stores are live."""
        store = self.stores[SpuId(number)]
        spec = self.spec
        if spec.epoch == NO_EPOCH:
            live = {each.spu: each.incarnation for each in self.stores.values()}
            spec = replace(spec, replicas=tuple(live), live_replicas=tuple(live), live_incarnations=live)
        await self.tell(replace(spec, leader=store.spu, leader_incarnation=store.process, epoch=Epoch(spec.epoch + 1)))
        await self.settle()
        return store

    async def settle(self) -> None:
        """Waits until nothing more happens without time passing."""
        await trio.testing.wait_all_tasks_blocked()


async def go_offline(replica: Replica, reason: str) -> None:
    replica.go_offline(reason)


async def no_checkpoint() -> None:
    await trio.lowlevel.checkpoint()


def replication_on(
    spu: SpuId,
    files: SimulatedFiles,
    replicas: ReplicaRegistry,
    nursery: trio.Nursery,
    promises: Promises | None = None,
    live_replicas: LiveReplicaReporter | None = None,
) -> ReplicaInfoDispatcher:
    """Makes the replication of an SPU that reaches no other SPU."""
    cluster, logger = Cluster(), structlog.get_logger()
    files.make_directories("/data")
    identity = PeerIdentity(spu, "store", "process")
    return ReplicaInfoDispatcher(
        RoleContext(
            spu,
            identity.process,
            identity.incarnation,
            promises or Promises(files, "/data"),
            PeerLinks(identity, cluster, MemoryNetwork(), RandomChance(1), logger),
            live_replicas or LiveReplicaReporter(replicas, BrokerMetrics(), logger),
            cluster,
            Deadlines(),
            nursery,
            lambda replica: None,
            lambda: None,
            trio.current_time,
            no_checkpoint,
            lambda replica: False,
            lambda key, reason: None,
            lambda replica, offset: None,
            BrokerMetrics(),
            logger,
        )
    )


@asynccontextmanager
async def wire_of(count: int, **configs: str) -> AsyncIterator[Wire]:
    """Yields stores, of which the first is elected."""
    async with trio.open_nursery() as nursery:
        wire = Wire(nursery, {name.replace("_", "."): value for name, value in configs.items()})
        nursery.start_soon(wire.deliver)
        for number in range(1, count + 1):
            await wire.start(number)
        await wire.elect(1)
        yield wire
        nursery.cancel_scope.cancel()


def logs(wire: Wire) -> list[list[bytes]]:
    return [store.values() for store in wire.stores.values()]


def code_of(answer: KafkaError | bool | None) -> ErrorCode:
    assert isinstance(answer, KafkaError), answer
    return answer.code


class Waiter:
    """A producer that waits for its acknowledgement."""

    def __init__(self) -> None:
        self.answer: KafkaError | bool | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None

    def on_acknowledged(self) -> None:
        self.answer = True

    def on_refused(self, error: KafkaError) -> None:
        self.answer = error


def produce(store: Store, *values: bytes, producer_id: int = -1, base_sequence: int = -1) -> Waiter:
    """Produces with acks=all."""
    assert store.replica.is_leader
    assert not store.replica.is_merging
    waiter = Waiter()
    records = [Record(offset, 1_700_000_000_000, None, value) for offset, value in enumerate(values)]
    producer_epoch = -1 if producer_id < 0 else 0
    data = bytearray(
        build_batch(records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    )
    stamp(data, 0, store.log.log_end, store.replica.spec.epoch)
    store.replica.append(data, read_header(data))
    store.replica.wait_until_committed(store.log.log_end, waiter)
    store.appended[store.replica] = None
    store.end_turn()
    return waiter
