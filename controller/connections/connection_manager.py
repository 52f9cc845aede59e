"""The Connection Manager: admits SPUs, keeps their leases, and streams their specs to them.

An SPU is admitted in a fixed order: it registers, is looked up and accepted, its stream is kept, the controllers get an
event, and then everything is sent to it. Later changes are sent as they happen. Whether an SPU is online depends on its
lease and not on its connection; see `leases`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

import trio

from tailrace.cluster.advertised_addresses import PUBLISHED
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.audit_config_table import AUDIT_PARTITION
from tailrace.controller.objects.endpoint_encryption import lacking_encryption
from tailrace.controller.objects.objects import PublicListener, Spu, SpuType
from tailrace.controller.sc_metrics import ScMetrics
from tailrace.controller.state.actions import (
    AddPartition,
    AddSpu,
    ConnectionAction,
    DeletePartition,
    DeleteSpu,
    UpdatePartition,
    UpdateSpu,
)
from tailrace.controller.state.cluster_mirror import MirrorChange
from tailrace.controller.state.events import Event, LeaseGracePeriodOver, SpuConnected, SpuLost
from tailrace.controller.state.local_store import LocalStore, PartitionKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace.protocol.internal.append_audit import AppendAuditRequest
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.protocol.internal.leave import LeaveRequest, LeaveResponse
from tailrace.protocol.internal.register_spu import RegisterSpuRequest, RegisterSpuResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest, RenewLeaseResponse
from tailrace.protocol.internal.report_live_replicas import ReportLiveReplicasRequest
from tailrace.protocol.internal.report_shelves import ReportShelvesRequest
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, SPU_PRIVATE_APIS, InternalApiKey
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address, Connection, Network, may_be_host
from tailrace.runtime.tls.tls_connection import TlsConnection
from tailrace.security.identity.server_names import spu_name
from tailrace.security.settings.security_protocol import SecurityProtocol
from tailrace.server.encryption.server_links import ForgedNameError, check_name
from tailrace.server.foreign_clients import ForeignClients
from tailrace.server.private_link import FRAME_BYTES_MAX, LinkClosed, PrivateLink

from .connection_documents import ConnectionRow
from .event_queue import EventQueue
from .leases import Leases
from .process_exits import wait_until_all_refuse
from .spec_cache import SpecCache
from .spu_reports import SpuReports
from .spu_stream import Registered, SpuStream

HEARTBEATS_PER_LEASE = 3
STALL_SECONDS_MIN = 0.1
"""If leases are checked so much too late, the process was paused, and renewals may have arrived unread."""
REGISTER_SECONDS_MAX = 5.0
APPEND_SECONDS_MAX = 10.0
"""How long an SPU may take to append lines of the audit log."""
STRANGER_BYTES_MAX = 64 * 1024
"""The largest frame that an SPU may send before it has registered."""
FORWARDS_MAX = 128
"""How many forwarded requests of one SPU may be under way."""
FORWARDED_BYTES_MAX = 8 * 1024 * 1024
"""How many bytes the forwarded requests of one SPU may have. The link stops reading only at a much larger number."""
PORT_MAX = 65535
UNREGISTERED_MAX = 1000
"""How many unregistered processes are remembered."""

CONCURRENT = frozenset({InternalApiKey.RENEW_LEASE, InternalApiKey.ALLOCATE_PRODUCER_IDS, InternalApiKey.FORWARD})
"""The requests that are handled concurrently: slow ones, and renewals of the lease, which must not wait for others."""


class _Peer:
    """The other end of one connection."""

    link: PrivateLink

    def __init__(self, connection: Connection, stream: SpuStream) -> None:
        self.connection = connection
        self.address = connection.remote
        self.stream = stream
        self.listens_at: tuple[Address, ...] = ()
        """The addresses at which the SPU listens for clients and other SPUs."""
        self.forwards = 0
        """The number of forwarded requests that have no response yet."""
        self.forwarded_bytes = 0
        """The size of these requests."""


class ConnectionManager:
    """Keeps the connections to the SPUs while this SC is active."""

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
        unreadable: Mapping[str, int],
        lease_seconds: float,
    ) -> None:
        """`events` takes events for the controllers in order, and may wait.

        `allocate_producer_ids` and `forward` may raise KafkaError, which the SPU gets as the response. `unreadable` has
        the keys in the store whose values cannot be read now. While there are any, SPUs are not told to remove
        partitions that their full specs do not name.
        """
        self._store = store
        self._cluster = cluster
        self._network = network
        self._events = EventQueue(events)
        self._allocate_producer_ids = allocate_producer_ids
        self._forward = forward
        self._metrics = metrics
        self._logger = logger
        self._unreadable = unreadable
        self._heartbeat_seconds = lease_seconds / HEARTBEATS_PER_LEASE
        self._leases = Leases(lease_seconds)
        self._foreign_clients = ForeignClients()
        self._cache = SpecCache()
        self._connected: dict[SpuId, _Peer] = {}
        self._unregistered: dict[SpuId, str] = {}
        """The process incarnations of custom SPUs that were unregistered: a group that gets the id starts another."""
        self._sent_configs: dict[TopicId, Mapping[str, str]] = {}
        """The configs of each topic that were sent, or queued, to the SPUs that hold it."""
        self._began_at = trio.current_time()
        self._lease_grace_period_ends_at = self._began_at + lease_seconds
        self._are_all_offline = False
        """Whether all SPUs were lost, or none connected during the first lease.

        If this SC itself was cut off, all SPUs will connect again, one by one. So the first one that does so starts
        another grace period.
        """
        self._someone_returned = trio.Event()
        self._lost_at: dict[SpuId, float] = {}
        self.reports = SpuReports(self._cache, self._events, self.is_connected, metrics, logger)

    async def run(self) -> None:
        """Runs until it is cancelled. SPUs that do not connect within the duration of one lease are offline."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._events.hand_over)
            nursery.start_soon(self._watch_leases)
            while True:
                await trio.sleep_until(self._lease_grace_period_ends_at)
                late_seconds = trio.current_time() - self._lease_grace_period_ends_at
                if late_seconds > STALL_SECONDS_MIN:  # SPUs that have connected may not have been admitted yet.
                    self._lease_grace_period_ends_at += late_seconds + self._heartbeat_seconds
                elif late_seconds >= 0:
                    self._events.add(LeaseGracePeriodOver())
                    self._are_all_offline = not self._leases.are_any_held
                    self._someone_returned = trio.Event()
                    await self._someone_returned.wait()

    # called by the workflow

    def apply(self, action: ConnectionAction) -> None:
        """Carries out an action of the controllers without waiting."""
        match action:
            case AddSpu(spu) | UpdateSpu(spu):
                self._put_spu(spu)
            case DeleteSpu(spu_id):
                self._drop_spu(spu_id)
            case AddPartition(partition) | UpdatePartition(partition):
                self._queue_partition((partition.topic_id, partition.number), self._cache.put_partition(partition))
            case DeletePartition(topic_id, number):
                self._queue_partition((topic_id, number), self._cache.drop_partition((topic_id, number)))

    def publish(self, change: MirrorChange) -> None:
        """Sends a change of the mirror to every connected SPU, after everything that `apply` was given before."""
        for topic in change.topics:
            if self._sent_configs.get(topic.id) != topic.configs:
                self._sent_configs[topic.id] = topic.configs
                for partition in topic.partitions:
                    self._queue_partition((topic.id, partition.partition), partition.replicas)
        for topic_id in change.removed_topics:
            self._sent_configs.pop(topic_id, None)
        for connected in self._connected.values():
            connected.stream.queue_metadata(change)
            if change.are_overrides_changed:
                connected.stream.queue_configs()

    def reconcile(self) -> None:
        """Sends everything to every connected SPU again."""
        for connected in self._connected.values():
            connected.stream.queue_everything()

    # called by other parts of the SC

    async def append_audit(self, topic: str, key: bytes, values: Sequence[bytes]) -> None:
        """Appends lines of the audit log to a topic, through its leader or any other SPU. Raises OSError."""
        partition = self._cluster.partition(topic, AUDIT_PARTITION)
        spu = None if partition is None else partition.leader
        if spu not in self._connected:
            spu = next(iter(self._connected), None)
        if spu is None:
            raise OSError("no SPU is connected")
        try:
            with trio.fail_after(APPEND_SECONDS_MAX):
                response = await self.ask_spu(spu, AppendAuditRequest(topic, key, list(values)))
        except (LinkClosed, KafkaError, trio.TooSlowError) as error:
            raise OSError(f"SPU {spu}: {error}" if str(error) else f"SPU {spu} does not respond") from error
        if response.error_message:
            raise OSError(response.error_message)

    async def ask_spu(self, spu: SpuId, message: Any) -> Any:
        """Asks an SPU and returns its response. The caller limits the time. Raises LinkClosed."""
        connected = self._connected.get(spu)
        if connected is None:
            raise LinkClosed(f"SPU {spu} is not connected")
        return await connected.link.ask(message)

    def is_connected(self, spu: SpuId, incarnation: str) -> bool:
        """Tells whether this process of the SPU is connected."""
        connected = self._connected.get(spu)
        registered = None if connected is None else connected.stream.registered
        return registered is not None and registered.incarnation == incarnation

    def is_carrying_out_specs(self, spu: SpuId) -> bool:
        """Tells whether the SPU has received specs and not responded to them yet."""
        connected = self._connected.get(spu)
        return connected is not None and connected.stream.is_carrying_out_specs

    def owes_response(self, spu: SpuId) -> bool:
        """Tells whether the SPU has received specs or metadata and not responded to them yet."""
        connected = self._connected.get(spu)
        return connected is not None and connected.stream.owes_response

    def away(self, seconds: float) -> frozenset[SpuId]:
        """Returns the registered SPUs that have had no lease for this time."""
        since = trio.current_time() - seconds
        return frozenset(
            spu
            for spu in self._cache.spus
            if not self._leases.is_held(spu) and self._lost_at.get(spu, self._began_at) <= since
        )

    def connections(self) -> list[ConnectionRow]:
        """Returns the facts about all streams, by SPU."""
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
                    self._cache.replicas_on(spu),
                    connected.stream.sent_version,
                    connected.stream.is_up_to_date,
                    connected.connection.version if isinstance(connected.connection, TlsConnection) else "",
                )
            )
        return rows

    # one connection

    async def serve(self, connection: Connection) -> None:
        """Serves a connection until it has ended."""
        stream = SpuStream(self._cache, self._store, self._cluster, self._unreadable, self._metrics, self._logger)
        peer = _Peer(connection, stream)
        peer.link = PrivateLink(
            connection,
            serves=SC_PRIVATE_APIS,
            asks=SPU_PRIVATE_APIS,
            handle=partial(self._handle, peer),
            concurrent=CONCURRENT,
            logger=self._logger,
            frame_bytes_max=STRANGER_BYTES_MAX,
            foreign_clients=self._foreign_clients,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_close_unless_registered, peer)
                nursery.start_soon(stream.push, peer.link)
                await peer.link.run()
                nursery.cancel_scope.cancel()
        finally:
            self._on_end(peer)
        await self._end_lease_if_process_exited(peer)

    def _on_end(self, peer: _Peer) -> None:
        registered = peer.stream.registered
        if registered is None:
            return
        self._logger.info("spu_disconnected", spu=registered.spu, reason=peer.link.closed_because)
        if self._connected.get(registered.spu) is peer:
            del self._connected[registered.spu]
            self._leases.on_stream_ended(registered.spu)

    async def _end_lease_if_process_exited(self, peer: _Peer) -> None:
        """Ends the lease of a disconnected process at once if its machine refuses connections to it."""
        registered = peer.stream.registered
        if registered is None:
            return

        def is_held_without_stream() -> bool:
            return self._leases.is_held_without_stream(registered.spu, registered.incarnation)

        with trio.move_on_after(self._leases.seconds):
            if await wait_until_all_refuse(self._network, peer.listens_at, is_held_without_stream):
                self._lose(registered.spu, "its process has ended")

    async def _handle(self, peer: _Peer, _: IntEnum, message: Any) -> object:
        if isinstance(message, RegisterSpuRequest):
            return await self._register(peer, message)
        registered = peer.stream.registered
        if registered is None:
            raise RemoteProtocolError(f"{type(message).__name__} came before the registration")
        match message:
            case RenewLeaseRequest():
                self.reports.take_storage(registered, message)
                renewed = self._leases.renew(registered.spu, registered.incarnation, trio.current_time())
                return RenewLeaseResponse(ErrorCode.NONE if renewed else ErrorCode.STALE_BROKER_EPOCH)
            case LeaveRequest():
                self._leave(peer, registered)
                return LeaveResponse()
            case ReportLiveReplicasRequest(partitions):
                return await self.reports.take_partitions(registered, partitions)
            case ReportShelvesRequest(partitions):
                return await self.reports.take_shelves(registered, partitions)
            case AllocateProducerIdsRequest():
                return await self._respond_with_producer_ids()
            case ForwardRequest():
                return await self._respond_to_forwarded(peer, message)
        raise AssertionError(f"{type(message).__name__} is in the table and has no handler")

    # registration and leases

    async def _register(self, peer: _Peer, message: RegisterSpuRequest) -> RegisterSpuResponse:
        if peer.stream.registered is not None:
            raise RemoteProtocolError("the SPU registered twice on one connection")
        await self._events.wait_for_room()
        spu = SpuId(message.spu_id)
        refusal = _forgery(peer, spu) or self._refusal(message)
        if refusal is not None:
            self._metrics.cm_rejected += 1
            self._logger.warning("spu_rejected", spu=spu, address=str(peer.address), reason=refusal.message)
            peer.link.finish(refusal.message)
            return self._registration_response(refusal.code, refusal.message)
        now = trio.current_time()
        before = self._connected.get(spu)
        self._connected[spu] = peer
        if self._are_all_offline:
            self._are_all_offline = False
            self._lease_grace_period_ends_at = now + self._leases.seconds
            self._someone_returned.set()
        self._leases.grant(spu, message.incarnation, now)
        private = Address(message.private_host, message.private_port)
        # A published port belongs to a container engine, which may accept connections when the SPU is gone.
        listens = (Address(each.host, each.port) for each in message.listeners if each.name != PUBLISHED)
        peer.listens_at = (*listens, private)
        peer.stream.accept(Registered(spu, message.incarnation, message.software_version, now))
        peer.link.accept_frames_up_to(FRAME_BYTES_MAX)
        if before is not None:
            before.link.close("the SPU has connected anew")
        self._metrics.cm_accepted += 1
        self._logger.info("spu_connected", spu=spu, address=str(peer.address), version=message.software_version)
        self._events.add(
            SpuConnected(
                spu,
                message.incarnation,
                message.store_incarnation,
                _listeners(message),
                private,
                SecurityProtocol(message.private_security_protocol),
            )
        )
        return self._registration_response(ErrorCode.NONE, None)

    def _refusal(self, message: RegisterSpuRequest) -> KafkaError | None:
        spu = SpuId(message.spu_id)
        if spu not in self._cache.spus:
            return KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"SPU {spu} is not registered")
        group = self._cache.spus[spu].spec.group
        if group is not None and message.incarnation == self._unregistered.get(spu):
            return KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"this process is the custom SPU {spu}, which was unregistered, and SPU {spu} belongs to the SPU group "
                f"{group} now; stop this process",
            )
        if not message.incarnation or not message.store_incarnation:
            return KafkaError(ErrorCode.INVALID_REGISTRATION, "an SPU needs incarnations")
        private = Address(message.private_host, message.private_port)
        for each in (private, *(Address(listener.host, listener.port) for listener in message.listeners)):
            # The addresses are stored in the SPU's object. An invalid one would make the whole object unreadable.
            if not may_be_host(each.host) or not 0 < each.port <= PORT_MAX:
                return KafkaError(ErrorCode.INVALID_REGISTRATION, f"{each} is not an address to which one can connect")
        try:
            listeners, protocol = _listeners(message), SecurityProtocol(message.private_security_protocol)
        except ValueError:
            return KafkaError(ErrorCode.INVALID_REGISTRATION, "a listener uses a protocol that this SC does not know")
        unencrypted = lacking_encryption(self._cache.spus[spu].spec, listeners, protocol)
        if unencrypted is not None:
            return KafkaError(ErrorCode.INVALID_REGISTRATION, f"SPU {spu} may not join: {unencrypted}")
        taken = self._leases.refusal(spu, message.incarnation, trio.current_time())
        return None if taken is None else KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, taken)

    def _registration_response(self, code: ErrorCode, reason: str | None) -> RegisterSpuResponse:
        return RegisterSpuResponse(
            error_code=code,
            error_message=reason,
            cluster_id=self._cluster.cluster_id,
            lease_ms=round(self._leases.seconds * 1000),
            heartbeat_ms=round(self._heartbeat_seconds * 1000),
        )

    def _leave(self, peer: _Peer, registered: Registered) -> None:
        if self._connected.get(registered.spu) is peer:
            self._lose(registered.spu, "it stopped", is_orderly=True)
        peer.link.finish("it stopped")

    def _lose(self, spu: SpuId, reason: str, *, is_orderly: bool = False) -> None:
        """Ends the SPU's lease and stream, and reports the loss to the controllers.

        `is_orderly` says that somebody wanted this, so that the log does not warn of it.
        """
        lease = self._leases.end(spu)
        self._connected.pop(spu, None)
        if lease is not None:
            self._lost_at[spu] = trio.current_time()
            self._are_all_offline = not self._leases.are_any_held
            self._metrics.cm_lost += 1
            if is_orderly:
                self._logger.info("spu_left", spu=spu, reason=reason)
            else:
                self._logger.warning("spu_lost", spu=spu, reason=reason)
            self._events.add(SpuLost(spu, lease.incarnation, reason))

    async def _watch_leases(self) -> None:
        while True:
            # A lease that is granted while this sleeps expires after this wakes.
            now = trio.current_time()
            wake_at = min(self._leases.next_end, now + self._leases.seconds)
            await trio.sleep_until(wake_at)
            late_seconds = trio.current_time() - wake_at
            if late_seconds > STALL_SECONDS_MIN:
                self._logger.warning("sc_stalled", seconds=round(late_seconds, 3))
                self._leases.extend(late_seconds + self._heartbeat_seconds)
            for spu in self._leases.expired(trio.current_time()):
                connected = self._connected.get(spu)
                self._lose(spu, "its lease has expired")
                if connected is not None:
                    connected.link.close("its lease has expired")

    # requests of SPUs

    async def _respond_with_producer_ids(self) -> AllocateProducerIdsResponse:
        try:
            block = await self._allocate_producer_ids()
        except KafkaError as error:
            return AllocateProducerIdsResponse(error.code, error.message)
        return AllocateProducerIdsResponse(first_id=block.start, count=len(block))

    async def _respond_to_forwarded(self, peer: _Peer, message: ForwardRequest) -> ForwardResponse:
        """Carries out a forwarded request. Too many at once are refused instead of left unread.

        Unread requests would hold up renewals of the lease.
        """
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
            raise  # A broken invariant ends the process.
        except Exception as mistake:
            # A bug in the handling of one client's request must not end the SPU's connection, and all its leaderships.
            self._logger.error("forwarded_request_failed", api_key=message.api_key, exc_info=mistake)
            return ForwardResponse(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the Streaming Controller could not respond; see its log"
            )
        finally:
            peer.forwards -= 1
            peer.forwarded_bytes -= size_bytes

    # cached specs

    def _put_spu(self, spu: Spu) -> None:
        before = self._cache.spus.get(spu.spec.id)
        self._cache.spus[spu.spec.id] = spu
        connected = self._connected.get(spu.spec.id)
        if connected is not None and before is not None and before.spec != spu.spec:
            connected.stream.queue_configs()

    def _drop_spu(self, spu: SpuId) -> None:
        before = self._cache.spus.pop(spu, None)
        if before is not None and before.spec.type is SpuType.CUSTOM and before.status.incarnation:
            self._remember_unregistered(before)
        connected = self._connected.get(spu)
        self._lose(spu, "it is not registered any more", is_orderly=True)
        if connected is not None:
            connected.link.close("the SPU is not registered any more")

    def _remember_unregistered(self, spu: Spu) -> None:
        self._unregistered.pop(spu.spec.id, None)
        self._unregistered[spu.spec.id] = spu.status.incarnation
        if len(self._unregistered) > UNREGISTERED_MAX:
            del self._unregistered[next(iter(self._unregistered))]

    def _queue_partition(self, key: PartitionKey, spus: tuple[SpuId, ...]) -> None:
        for spu in spus:
            connected = self._connected.get(spu)
            if connected is not None:
                connected.stream.queue_partition(key)


async def _close_unless_registered(peer: _Peer) -> None:
    await trio.sleep(REGISTER_SECONDS_MAX)
    if peer.stream.registered is None:
        peer.link.close(f"no registration within {REGISTER_SECONDS_MAX} seconds")


def _listeners(message: RegisterSpuRequest) -> tuple[PublicListener, ...]:
    """Returns the public listeners that an SPU reports. Raises ValueError for an unknown protocol."""
    return tuple(
        PublicListener(each.name, each.host, each.port, each.on_all_addresses, SecurityProtocol(each.security_protocol))
        for each in message.listeners
    )


def _forgery(peer: _Peer, spu: SpuId) -> KafkaError | None:
    """Returns why the certificate of the peer is not that of the SPU; None if it is, or if there are none."""
    try:
        check_name(peer.connection, spu_name(spu))
    except ForgedNameError as error:
        return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(error))
    return None
