"""The Connection Manager: knows which SPUs may connect and what each is to hold, and keeps the streams to those here.

Setting up a stream goes in the same order each time: the SPU asks to be let in, is looked up, accepted, its stream is
kept, the controllers hear that it is there, and then it is told everything. What changes later is told as it changes.
Who is here at all is a matter of leases, see `leases`.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from functools import partial
from types import MappingProxyType
from typing import Any

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId, TopicId
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.protocol.internal.leave import LeaveRequest, LeaveResponse
from tailrace.protocol.internal.register_spu import RegisterSpuRequest, RegisterSpuResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest, RenewLeaseResponse
from tailrace.protocol.internal.report_live_replicas import (
    ReportedPartition,
    ReportLiveReplicasRequest,
    ReportLiveReplicasResponse,
)
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, SPU_PRIVATE_APIS, InternalApiKey
from tailrace.runtime.network import Address, Connection, Network
from tailrace.server.private_link import FRAME_BYTES_MAX, LinkClosed, PrivateLink

from .actions import AddPartition, AddSpu, ConnectionAction, DeletePartition, DeleteSpu, UpdatePartition, UpdateSpu
from .cluster_mirror import MirrorChange
from .connection_documents import ConnectionRow
from .ends_of_processes import until_nobody_listens
from .events import (
    Event,
    FailedReplica,
    LeaderFailed,
    LeasesUnknownOver,
    LiveReplicasReported,
    SpuConnected,
    SpuLost,
    StorageReported,
)
from .leases import Leases
from .local_store import LocalStore, PartitionKey
from .metrics import ScMetrics
from .objects import Listener, Spu
from .spec_cache import SpecCache
from .spu_stream import Registered, SpuStream

HEARTBEATS_PER_LEASE = 3
STALL_SECONDS_MIN = 0.1
"""Looking after the leases so much too late means that we did not look at the network either."""
REGISTER_SECONDS_MAX = 5.0
STRANGER_BYTES_MAX = 64 * 1024
"""Of a frame, until the SPU has said who it is."""
FORWARDS_MAX = 128
FORWARDED_BYTES_MAX = 8 * 1024 * 1024
"""Of one SPU at once; well below what makes its link stop reading."""
EVENTS_WAITING_MAX = 1000
PORT_MAX = 65535
NOTHING: Mapping[str, int] = MappingProxyType({})

CONCURRENT = frozenset({InternalApiKey.RENEW_LEASE, InternalApiKey.ALLOCATE_PRODUCER_IDS, InternalApiKey.FORWARD})
"""Those that take long, and the renewal of the lease: being alive must not wait for anything."""


class _Peer:
    """Whoever is at the other end of one connection."""

    link: PrivateLink

    def __init__(self, address: Address, stream: SpuStream) -> None:
        self.address = address
        self.stream = stream
        self.listens_at: tuple[Address, ...] = ()
        """Where clients and other SPUs find it."""
        self.forwards = 0
        """Passed on by it and not answered yet."""
        self.forwarded_bytes = 0


class ConnectionManager:
    def __init__(
        self,
        store: LocalStore,
        cluster: Cluster,
        network: Network,
        *,
        events: Callable[[Event], Awaitable[None]],
        allocate_producer_ids: Callable[[], Awaitable[range]],
        forward: Callable[[ForwardRequest], Awaitable[ForwardResponse]],
        metrics: ScMetrics,
        logger: FilteringBoundLogger,
        unreadable: Mapping[str, int] = NOTHING,
        lease_seconds: float,
    ) -> None:
        """`events` takes what the controllers should know, in order; it may wait. The two other callables may raise
        KafkaError, which the SPU is told. `unreadable`: keys of the store under which something lies that cannot be
        read now; while there are any, no SPU is told that what is not named is gone."""
        self._store = store
        self._cluster = cluster
        self._network = network
        self._events = events
        self._allocate_producer_ids = allocate_producer_ids
        self._forward = forward
        self._metrics = metrics
        self._logger = logger
        self._unreadable = unreadable
        self._heartbeat_seconds = lease_seconds / HEARTBEATS_PER_LEASE
        self._leases = Leases(lease_seconds)
        self._cache = SpecCache()
        self._connected: dict[SpuId, _Peer] = {}
        self._told_configs: dict[TopicId, Mapping[str, str]] = {}
        """Of each topic, those that the SPUs that hold it have been told, or are about to be."""
        self._full: dict[SpuId, str] = {}
        """The SPUs of which the controllers were told that their storage is full, each with its incarnation then."""
        self._began_at = trio.current_time()
        self._leases_unknown_until = self._began_at + lease_seconds
        self._is_nobody_here = False
        """All were lost, or none came in the first lease. Perhaps it is this SC that was cut off: then all of them
        come, one by one."""
        self._someone_is_back = trio.Event()
        self._lost_at: dict[SpuId, float] = {}
        self._failed: dict[FailedReplica, tuple[str, float]] = {}
        """The incarnation that said so, and when."""
        self._waiting_events: deque[Event] = deque()
        self._events_changed = trio.Event()

    async def run(self) -> None:
        """Until cancelled. SPUs that have not come within a lease from now on are offline."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hand_over_events)
            nursery.start_soon(self._watch_leases)
            while True:
                await trio.sleep_until(self._leases_unknown_until)
                late_seconds = trio.current_time() - self._leases_unknown_until
                if late_seconds > STALL_SECONDS_MIN:  # SPUs may have come whom we have not let in yet
                    self._leases_unknown_until += late_seconds + self._heartbeat_seconds
                elif late_seconds >= 0:
                    self._report(LeasesUnknownOver())
                    self._is_nobody_here = not self._leases.are_any_held
                    self._someone_is_back = trio.Event()
                    await self._someone_is_back.wait()

    # what the controllers say

    def apply(self, action: ConnectionAction) -> None:
        match action:
            case AddSpu(spu) | UpdateSpu(spu):
                self._put_spu(spu)
            case DeleteSpu(spu_id):
                self._drop_spu(spu_id)
            case AddPartition(partition) | UpdatePartition(partition):
                self._tell_partition((partition.topic_id, partition.number), self._cache.put_partition(partition))
            case DeletePartition(topic_id, number):
                self._tell_partition((topic_id, number), self._cache.drop_partition((topic_id, number)))

    def publish(self, change: MirrorChange) -> None:
        """To every SPU that is connected, after what `apply` was given before."""
        for topic in change.topics:
            if self._told_configs.get(topic.id) != topic.configs:
                self._told_configs[topic.id] = topic.configs
                for partition in topic.partitions:
                    self._tell_partition((topic.id, partition.partition), partition.replicas)
        for topic_id in change.removed_topics:
            self._told_configs.pop(topic_id, None)
        for connected in self._connected.values():
            connected.stream.tell_cluster(change)
            if change.are_overrides_changed:
                connected.stream.tell_configs()

    def reconcile(self) -> None:
        """Tells everyone everything again."""
        for connected in self._connected.values():
            connected.stream.tell_everything()

    # what others ask

    async def ask_spu(self, spu: SpuId, message: Any) -> Any:
        """The SPU's response, how long to wait for which is the caller's to bound. Raises LinkClosed."""
        connected = self._connected.get(spu)
        if connected is None:
            raise LinkClosed(f"SPU {spu} is not connected")
        return await connected.link.ask(message)

    def is_connected(self, spu: SpuId, incarnation: str) -> bool:
        """Whether that process is."""
        connected = self._connected.get(spu)
        registered = None if connected is None else connected.stream.registered
        return registered is not None and registered.incarnation == incarnation

    def is_carrying_out_specs(self, spu: SpuId) -> bool:
        connected = self._connected.get(spu)
        return connected is not None and connected.stream.is_carrying_out_specs

    def owes_answer(self, spu: SpuId) -> bool:
        connected = self._connected.get(spu)
        return connected is not None and connected.stream.owes_answer

    def away(self, seconds: float) -> frozenset[SpuId]:
        """The registered SPUs that have had no lease for so long."""
        since = trio.current_time() - seconds
        return frozenset(
            spu
            for spu in self._cache.spus
            if not self._leases.is_held(spu) and self._lost_at.get(spu, self._began_at) <= since
        )

    def failed(self, seconds: float) -> frozenset[FailedReplica]:
        """The replicas whose disks have failed for so long, in the processes that are connected; also those that have
        moved since, for the disk is the same."""
        self._failed = {
            replica: noted
            for replica, noted in self._failed.items()
            if replica[:2] in self._cache.partitions and self.is_connected(replica[2], noted[0])
        }
        since = trio.current_time() - seconds
        return frozenset(replica for replica, (_, failed_at) in self._failed.items() if failed_at <= since)

    def connections(self) -> list[ConnectionRow]:
        now = trio.current_time()
        rows = []
        for spu, connected in sorted(self._connected.items()):
            registered = connected.stream.registered
            assert registered is not None
            rows.append(
                ConnectionRow(
                    spu,
                    registered.incarnation,
                    registered.software_version,
                    str(connected.address),
                    now - registered.since,
                    self._leases.seconds_left(spu, now),
                    len(self._cache.held.get(spu, ())),
                    connected.stream.sent_version,
                    connected.stream.is_up_to_date,
                )
            )
        return rows

    # one connection

    async def serve(self, connection: Connection) -> None:
        """Until it has ended."""
        stream = SpuStream(self._cache, self._store, self._cluster, self._unreadable, self._metrics, self._logger)
        peer = _Peer(connection.remote, stream)
        peer.link = PrivateLink(
            connection,
            serves=SC_PRIVATE_APIS,
            asks=SPU_PRIVATE_APIS,
            handle=partial(self._handle, peer),
            concurrent=CONCURRENT,
            logger=self._logger,
            frame_bytes_max=STRANGER_BYTES_MAX,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_expect_registration, peer)
                nursery.start_soon(stream.push, peer.link)
                await peer.link.run()
                nursery.cancel_scope.cancel()
        finally:
            self._on_end(peer)
        await self._end_lease_of_the_dead(peer)

    def _on_end(self, peer: _Peer) -> None:
        registered = peer.stream.registered
        if registered is None:
            return
        self._logger.info("spu_disconnected", spu=registered.spu, reason=peer.link.closed_because)
        if self._connected.get(registered.spu) is peer:
            del self._connected[registered.spu]
            self._leases.stream_ended(registered.spu)

    async def _end_lease_of_the_dead(self, peer: _Peer) -> None:
        """A process that was killed is missed at once, if its machine says that it is gone."""
        registered = peer.stream.registered
        if registered is None:
            return

        def is_left() -> bool:
            return self._leases.is_left(registered.spu, registered.incarnation)

        with trio.move_on_after(self._leases.seconds):
            if await until_nobody_listens(self._network, peer.listens_at, is_left):
                self._lose(registered.spu, "its process has ended")

    async def _handle(self, peer: _Peer, _: IntEnum, message: Any) -> object:
        if isinstance(message, RegisterSpuRequest):
            return await self._register(peer, message)
        registered = peer.stream.registered
        if registered is None:
            raise RemoteProtocolError(f"{type(message).__name__} from who has not registered")
        match message:
            case RenewLeaseRequest():
                self._take_storage(registered, message)
                renewed = self._leases.renew(registered.spu, registered.incarnation, trio.current_time())
                return RenewLeaseResponse(ErrorCode.NONE if renewed else ErrorCode.STALE_BROKER_EPOCH)
            case LeaveRequest():
                self._leave(peer, registered)
                return LeaveResponse()
            case ReportLiveReplicasRequest(partitions):
                return await self._take_report(registered, partitions)
            case AllocateProducerIdsRequest():
                return await self._answer_with_producer_ids()
            case ForwardRequest():
                return await self._answer_forwarded(peer, message)
        raise AssertionError(f"{type(message).__name__} is in the table and not answered")

    # who is here

    async def _register(self, peer: _Peer, message: RegisterSpuRequest) -> RegisterSpuResponse:
        if peer.stream.registered is not None:
            raise RemoteProtocolError("registered for the second time on one connection")
        await self._room_for_events()
        spu = SpuId(message.spu_id)
        refusal = self._refusal(message)
        if refusal is not None:
            self._metrics.cm_rejected += 1
            self._logger.warning("spu_rejected", spu=spu, address=str(peer.address), reason=refusal.message)
            peer.link.finish(refusal.message)
            return self._registration_answer(refusal.code, refusal.message)
        now = trio.current_time()
        before = self._connected.get(spu)
        self._connected[spu] = peer
        if self._is_nobody_here:
            self._is_nobody_here = False
            self._leases_unknown_until = now + self._leases.seconds
            self._someone_is_back.set()
        self._leases.grant(spu, message.incarnation, now)
        private = Address(message.private_host, message.private_port)
        peer.listens_at = (*(Address(each.host, each.port) for each in message.listeners), private)
        peer.stream.accept(Registered(spu, message.incarnation, message.software_version, now))
        peer.link.accept_frames_up_to(FRAME_BYTES_MAX)
        if before is not None:
            before.link.close("the SPU has connected anew")
        self._metrics.cm_accepted += 1
        self._logger.info("spu_connected", spu=spu, address=str(peer.address), version=message.software_version)
        self._report(
            SpuConnected(
                spu,
                message.incarnation,
                message.store_incarnation,
                tuple(Listener(each.name, each.host, each.port) for each in message.listeners),
                private,
            )
        )
        return self._registration_answer(ErrorCode.NONE, None)

    def _refusal(self, message: RegisterSpuRequest) -> KafkaError | None:
        spu = SpuId(message.spu_id)
        if spu not in self._cache.spus:
            return KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"SPU {spu} is not registered")
        ports = [message.private_port, *(listener.port for listener in message.listeners)]
        has_incarnations = message.incarnation and message.store_incarnation
        if not has_incarnations or not all(0 < port <= PORT_MAX for port in ports):
            return KafkaError(ErrorCode.INVALID_REGISTRATION, "an SPU needs incarnations, and ports that there are")
        taken = self._leases.refusal(spu, message.incarnation, trio.current_time())
        return None if taken is None else KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, taken)

    def _registration_answer(self, code: ErrorCode, reason: str | None) -> RegisterSpuResponse:
        return RegisterSpuResponse(
            error_code=code,
            error_message=reason,
            cluster_id=self._cluster.cluster_id,
            lease_ms=round(self._leases.seconds * 1000),
            heartbeat_ms=round(self._heartbeat_seconds * 1000),
        )

    def _leave(self, peer: _Peer, registered: Registered) -> None:
        if self._connected.get(registered.spu) is peer:
            self._lose(registered.spu, "it stopped")
        peer.link.finish("it stopped")

    def _lose(self, spu: SpuId, reason: str) -> None:
        """Its lease is over, and with it its stream."""
        lease = self._leases.end(spu)
        self._connected.pop(spu, None)
        if lease is not None:
            self._lost_at[spu] = trio.current_time()
            self._is_nobody_here = not self._leases.are_any_held
            self._metrics.cm_lost += 1
            self._logger.warning("spu_lost", spu=spu, reason=reason)
            self._report(SpuLost(spu, lease.incarnation, reason))

    async def _watch_leases(self) -> None:
        while True:
            # A lease that begins while this sleeps ends later than this wakes.
            now = trio.current_time()
            wake_at = min(self._leases.next_end, now + self._leases.seconds)
            await trio.sleep_until(wake_at)
            late_seconds = trio.current_time() - wake_at
            if late_seconds > STALL_SECONDS_MIN:
                self._logger.warning("sc_stalled", seconds=round(late_seconds, 3))
                self._leases.extend(late_seconds + self._heartbeat_seconds)
            for spu in self._leases.ended(trio.current_time()):
                connected = self._connected.get(spu)
                self._lose(spu, "its lease has run out")
                if connected is not None:
                    connected.link.close("its lease has run out")

    # what SPUs ask

    async def _take_report(
        self, registered: Registered, partitions: list[ReportedPartition]
    ) -> ReportLiveReplicasResponse:
        refused = 0
        for reported in partitions:
            await self._room_for_events()
            if reported.has_failed:
                self._take_failure(registered, reported)
            elif reported.epoch == NO_EPOCH:  # its log has opened after all
                self._failed.pop((reported.topic_id, reported.partition, registered.spu), None)
            elif not self._is_leader(registered.spu, reported):
                refused += 1
            else:
                self._logger.debug(
                    "live_replicas_reported",
                    spu=registered.spu,
                    topic_id=str(reported.topic_id),
                    partition=reported.partition,
                    epoch=reported.epoch,
                    high_watermark=reported.high_watermark,
                    log_end=reported.log_end,
                    lags={lag.spu_id: lag.records for lag in reported.lags},
                )
                self._report(
                    LiveReplicasReported(
                        registered.spu,
                        registered.incarnation,
                        reported.topic_id,
                        reported.partition,
                        Epoch(reported.epoch),
                        reported.version,
                        tuple((SpuId(each.spu_id), each.incarnation) for each in reported.members),
                        reported.has_taken_over,
                    )
                )
        self._metrics.live_replica_reports += len(partitions) - refused
        self._metrics.refused_live_replica_reports += refused
        return ReportLiveReplicasResponse(ErrorCode.FENCED_LEADER_EPOCH if refused else ErrorCode.NONE)

    def _take_failure(self, registered: Registered, reported: ReportedPartition) -> None:
        spu, incarnation = registered.spu, registered.incarnation
        replica = (reported.topic_id, reported.partition, spu)
        partition, noted = self._cache.partitions.get(replica[:2]), self._failed.get(replica)
        is_here = partition is not None and spu in partition.spec.replicas
        if is_here and (noted is None or noted[0] != incarnation):
            self._failed[replica] = incarnation, trio.current_time()
            self._logger.warning("replica_failed", spu=spu, topic_id=str(replica[0]), partition=replica[1])
        if self._is_leader(spu, reported):
            self._report(LeaderFailed(spu, incarnation, *replica[:2], Epoch(reported.epoch)))

    def _take_storage(self, registered: Registered, message: RenewLeaseRequest) -> None:
        """Only a change is news. The renewal waits for nothing: without room for events the next one says it again."""
        spu, incarnation = registered.spu, registered.incarnation
        is_full = 0 <= message.size_bytes <= message.used_bytes
        was_full = self._full.get(spu) == incarnation
        if is_full != was_full and len(self._waiting_events) < EVENTS_WAITING_MAX:
            if is_full:
                self._full[spu] = incarnation
            else:
                del self._full[spu]
            self._report(StorageReported(spu, incarnation, is_full, message.used_bytes, message.size_bytes))

    def _is_leader(self, spu: SpuId, reported: ReportedPartition) -> bool:
        """And says what can be: it cannot name what is no replica, nor leave out itself."""
        partition = self._cache.partitions.get((reported.topic_id, reported.partition))
        if partition is None or (partition.status.leader, partition.status.epoch) != (spu, reported.epoch):
            return False
        members = {member.spu_id for member in reported.members}
        return not members or (spu in members and members <= set(partition.spec.replicas))

    async def _answer_with_producer_ids(self) -> AllocateProducerIdsResponse:
        try:
            block = await self._allocate_producer_ids()
        except KafkaError as error:
            return AllocateProducerIdsResponse(error.code, error.message)
        return AllocateProducerIdsResponse(first_id=block.start, count=len(block))

    async def _answer_forwarded(self, peer: _Peer, message: ForwardRequest) -> ForwardResponse:
        """Too many at once are refused rather than left unread: the renewals of the lease are behind them."""
        size_bytes = len(message.body)
        if peer.forwards >= FORWARDS_MAX or peer.forwarded_bytes + size_bytes > FORWARDED_BYTES_MAX:
            return ForwardResponse(ErrorCode.REQUEST_TIMED_OUT, "too many changes are being made already")
        self._metrics.forwarded_requests += 1
        peer.forwards += 1
        peer.forwarded_bytes += size_bytes
        try:
            return await self._forward(message)
        except KafkaError as error:
            return ForwardResponse(error.code, error.message)
        except AssertionError:
            raise  # what must not be is: nothing here can be trusted any more
        except Exception as mistake:
            # Ours, but in one client's request: it must not cost the SPU its connection, and all that it leads.
            self._logger.error("forwarded_request_failed", api_key=message.api_key, exc_info=mistake)
            return ForwardResponse(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the Streaming Controller could not answer; see its log"
            )
        finally:
            peer.forwards -= 1
            peer.forwarded_bytes -= size_bytes

    # what the controllers hear

    def _report(self, event: Event) -> None:
        self._waiting_events.append(event)
        self._wake_events()

    async def _room_for_events(self) -> None:
        """What an SPU says waits for room, and with it that SPU; that one is lost must be said in any case."""
        while len(self._waiting_events) >= EVENTS_WAITING_MAX:
            await self._events_changed.wait()

    async def _hand_over_events(self) -> None:
        while True:
            while self._waiting_events:
                await self._events(self._waiting_events.popleft())
                self._wake_events()
            await self._events_changed.wait()

    def _wake_events(self) -> None:
        self._events_changed.set()
        self._events_changed = trio.Event()

    # what is cached

    def _put_spu(self, spu: Spu) -> None:
        before = self._cache.spus.get(spu.spec.id)
        self._cache.spus[spu.spec.id] = spu
        connected = self._connected.get(spu.spec.id)
        if connected is not None and before is not None and before.spec != spu.spec:
            connected.stream.tell_configs()

    def _drop_spu(self, spu: SpuId) -> None:
        self._cache.spus.pop(spu, None)
        connected = self._connected.get(spu)
        self._lose(spu, "it is not registered any more")
        if connected is not None:
            connected.link.close("the SPU is not registered any more")

    def _tell_partition(self, key: PartitionKey, spus: tuple[SpuId, ...]) -> None:
        for spu in spus:
            connected = self._connected.get(spu)
            if connected is not None:
                connected.stream.tell_partition(key)


async def _expect_registration(peer: _Peer) -> None:
    await trio.sleep(REGISTER_SECONDS_MAX)
    if peer.stream.registered is None:
        peer.link.close(f"no registration within {REGISTER_SECONDS_MAX} seconds")
