"""A Streaming Processing Unit (SPU): wires all its parts, and serves Kafka clients from its replicas."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from msgspec import Struct

from tailrace.broker import handlers
from tailrace.broker.controller_link.forwarding import Forwarding
from tailrace.broker.controller_link.isolation import Isolation
from tailrace.broker.controller_link.lease import Lease
from tailrace.broker.controller_link.live_replica_reporter import LiveReplicaReporter
from tailrace.broker.controller_link.mirror_updater import MirrorUpdater
from tailrace.broker.controller_link.producer_ids import ProducerIds, allocate_from
from tailrace.broker.controller_link.registered_rack import RegisteredRack
from tailrace.broker.controller_link.sc_connection import Registration, ScConnection
from tailrace.broker.controller_link.sc_receiver import ScReceiver
from tailrace.broker.controller_link.spec_dispatcher import SpecDispatcher
from tailrace.broker.coordination.coordination_context import CoordinationContext
from tailrace.broker.copies.batch_copies import RemoteBatchCopies
from tailrace.broker.copies.bulk_copies import RemoteBulkCopies
from tailrace.broker.copies.spu_channels import SpuChannels
from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.descriptions.lag_measurement import LagMeasurement
from tailrace.broker.descriptions.replica_counts import count_replicas, gauge_partitions, unsynced_seconds_max
from tailrace.broker.descriptions.spu_metrics import SpuGauges, render_spu_metrics, spu_series
from tailrace.broker.groups.hosting.group_coordination import GroupCoordination
from tailrace.broker.groups.hosting.group_coordinator_kind import GroupCoordinatorKind
from tailrace.broker.groups.hosting.group_metrics import gauge_groups
from tailrace.broker.groups.hosting.group_settings_cache import GroupSettingsCache
from tailrace.broker.handlers.records.fetch_room import FetchRoom
from tailrace.broker.handlers.records.fetch_sessions import FetchSessions
from tailrace.broker.handlers.records.refused_batches import RefusedBatches
from tailrace.broker.handlers.records.refused_producers import RefusedProducers
from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.peers.peer_messages import PeerIdentity
from tailrace.broker.peers.replica_trace import ReplicaTrace
from tailrace.broker.peers.request_dialler import RequestDialler
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.roles.replica_info_dispatcher import ReplicaInfoDispatcher
from tailrace.broker.roles.role_context import RoleContext
from tailrace.broker.shelves.offloading import Offloading
from tailrace.broker.shelves.shelf_copies import ShelfCopies
from tailrace.broker.shelves.shelf_keeper import ShelfKeeper
from tailrace.broker.shelves.shelf_reads import ShelfReads
from tailrace.broker.spu_counters import KNOWN, BrokerMetrics
from tailrace.broker.transactions.common.transaction_settings import TransactionSettings
from tailrace.broker.transactions.hosting.transaction_coordination import TransactionCoordination
from tailrace.broker.transactions.hosting.transaction_coordinator_kind import TransactionCoordinatorKind
from tailrace.broker.transactions.hosting.transaction_metrics import gauge_transactions
from tailrace.broker.transactions.markers.verifications import Verifications
from tailrace.broker.upkeep.flusher import Flusher
from tailrace.broker.upkeep.high_watermark_checkpoint import HighWatermarkCheckpoint
from tailrace.broker.upkeep.housekeeping import Housekeeping
from tailrace.broker.upkeep.parking import Storage
from tailrace.broker.upkeep.scrubbing import Scrubbing
from tailrace.broker.upkeep.storage_limit import StorageLimit
from tailrace.cluster.advertised_addresses import PUBLISHED
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import Endpoint, TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.compile import decoder
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.runtime.descriptors import spu_clients_max
from tailrace.runtime.files import UnreadableError
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address, Connection, Listener
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SpuSettings
from tailrace.runtime.system_calls import SENDING, SYNCING
from tailrace.security.identity.server_names import spu_principal
from tailrace.security.settings.security_settings import METRICS
from tailrace.server import handlers as shared_handlers
from tailrace.server.authorization.authorizing import authorization_of
from tailrace.server.fairness.crowd import Crowd
from tailrace.server.fairness.large_requests import LargeRequests
from tailrace.server.health import Readiness
from tailrace.server.metrics_server import MetricsServer
from tailrace.server.public_server import PublicServer
from tailrace.server.request_context import ClientIdentity, Reply, RequestContext, request_without_connection
from tailrace.server.request_routes import NewShortcut, Route
from tailrace.server.security import ServerSecurity
from tailrace.server.throttling.server_quotas import ServerQuotas
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import ReplicaKey

from .spu_storage import SpuStorage

if TYPE_CHECKING:
    from tailrace.broker.transactions.hosting.marker_sender import MarkerSender
    from tailrace.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersResponse
    from tailrace.server.auditing.audit_opening import OpenAudit

FETCH_SESSION_PARTITIONS_MAX = 100_000


class Listeners(Struct, frozen=True):
    """The open listeners of an SPU."""

    public: Sequence[tuple[Listener, ListenerSettings]]
    private: Listener
    metrics: Listener | None


class Spu:
    """All parts of a running SPU, complete from the start. Handlers and connections of clients use it."""

    def __init__(
        self,
        settings: SpuSettings,
        seams: Seams,
        storage: SpuStorage,
        listeners: Listeners,
        security: ServerSecurity,
        nursery: trio.Nursery,
        logger: FilteringBoundLogger,
        *,
        traces: bool,
        audit: "OpenAudit | None" = None,
    ) -> None:
        # identity and seams
        self.id = SpuId(settings.id)
        self.process = str(seams.chance.uuid())
        """Identifies this process. A restart has another one."""
        self.settings = settings
        self.data_directory = settings.data_directory
        self.files = seams.files
        self.wall_clock = seams.wall_clock
        self.chance = seams.chance
        self.storage = storage
        self.audit = None if audit is None else audit.trail
        """The audit log, if it is turned on."""
        self._audit_topic = None if audit is None else audit.topic
        self._listeners = listeners
        self.security = security
        self._nursery = nursery
        self._network = seams.network
        self._seams = seams
        self._logger = logger

        # state that every part shares
        self.apis = API_TABLE
        self.metrics = BrokerMetrics()
        if audit is not None:
            self.metrics.server.audit = audit.trail.counts
        self.certificates = security.watch(seams.wall_clock, logger)
        """Knows when certificates expire; None without encrypted listeners."""
        if self.certificates is not None:
            self.metrics.server.certificate_expiries = self.certificates.expiries
        self.broker_configs = BrokerConfigs(settings.broker, _facts(settings))
        self.cluster = Cluster()
        self.replicas = ReplicaRegistry(self.id, self.cluster)
        self.deadlines = Deadlines()
        self.large_requests = LargeRequests(Crowd())
        self._appended: dict[Replica, None] = {}
        """The replicas to which records were appended in this turn."""
        self._not_ready: str | None = "waits for the Streaming Controller to admit it and to send its specs"
        """Why clients are not served; None while they are."""

        # state of clients
        self.refused_batches = RefusedBatches()
        self.refused_producers = RefusedProducers(logger)
        self.verifications = Verifications()
        self.fetch_sessions = FetchSessions(
            seams.chance, self.broker_configs.settings.fetch_sessions_max, FETCH_SESSION_PARTITIONS_MAX
        )
        self.fetch_room = FetchRoom(self.broker_configs.settings.queued_request_bytes_max)

        # other SPUs
        trace = ReplicaTrace(logger) if traces else None
        identity = PeerIdentity(self.id, storage.incarnation, self.process)
        private_tls = security.listener(settings.private.name).tls
        self.peers = PeerLinks(
            identity,
            self.cluster,
            seams.network,
            seams.chance,
            logger,
            trace,
            serve_requests=self._serve_requests,
            tls=private_tls,
        )
        self._dial = RequestDialler(identity, self.cluster, seams.network, private_tls).dial
        self._audit_channels = self._channels("audit")
        self._spu_requests = SpuRequests(self.id, self.cluster, self._dial, self.answer)
        self._clients: PublicServer | None = None
        """The server of clients. None until clients may connect."""
        self._clients_may_connect = trio.Event()

        # storage and its upkeep
        shelf_copies = ShelfCopies(self.id, storage.shelf_logs, logger)
        self.storage_limit = StorageLimit(self.replicas, self.metrics, logger, lambda: shelf_copies.size_bytes)
        self.shelf_keeper = ShelfKeeper(
            shelf_copies, self._spu_requests, self.storage_limit.check_room, self.broker_configs, self.metrics, logger
        )
        self.scrubbing = Scrubbing(
            self.replicas,
            RemoteBatchCopies(self._spu_requests),
            self.broker_configs,
            self.metrics,
            logger,
            self.shelf_keeper.scrubbing.scrub,
        )
        self.shelf_reads = ShelfReads(self._spu_requests, self.metrics, logger)
        self._flusher = Flusher(nursery, self.deadlines, self.metrics)
        self._checkpoint = HighWatermarkCheckpoint(
            self.data_directory, self.files, self.replicas, storage.closed, storage.high_watermarks, logger
        )

        # the Streaming Controller
        live_replicas = LiveReplicaReporter(self.replicas, self.metrics, logger)
        self._replication = self._replication_with(live_replicas, seams, trace)
        self._dispatcher = SpecDispatcher(
            self.id,
            self.data_directory,
            self.files,
            self.replicas,
            storage.parking,
            self.broker_configs,
            self._flusher,
            self.metrics,
            self._replication,
            storage.closed,
            nursery,
            self.scrubbing.repair_or_truncate,
            logger,
            shelf_copies.apply,
        )
        rack = RegisteredRack(settings.rack, self.broker_configs, logger)
        mirror = MirrorUpdater(self.cluster, self.id, rack.on_registered)
        self._receiver = ScReceiver(
            self.id,
            self._dispatcher,
            mirror,
            live_replicas,
            self._replication,
            self.replicas,
            self.cluster,
            self.storage_limit,
            self._append_audit,
        )
        self.lease = Lease()
        self.sc = ScConnection(
            self._registration(),
            settings.controllers,
            seams.network,
            seams.chance,
            self._receiver,
            storage.identity,
            self.lease,
            logger,
            private_tls,
        )
        self.isolation = Isolation(self.replicas, self.lease, logger)
        self.forwarding = Forwarding(self.sc, self.cluster, mirror)
        self.producer_ids = ProducerIds(partial(allocate_from, self.sc.request))
        self.offloading = Offloading(
            self._spu_requests, self.replicas, self.broker_configs, self.wall_clock, self.sc.report_shelves, logger
        )
        self._housekeeping = Housekeeping(
            self.wall_clock,
            self.replicas,
            storage.parking,
            self.broker_configs,
            self._checkpoint,
            self._forget_parked,
            logger,
        )

        # consumer groups
        self.groups = GroupCoordination(self.replicas, self._coordination_context(), self._group_kind())
        self._group_lag = LagMeasurement(self._spu_requests, self.groups.committed, self.cluster, self.wall_clock)

        # transactions
        self._transaction_kind = TransactionCoordinatorKind(
            self._transaction_settings, self.cluster, self.metrics.transactions, self._new_marker_sender
        )
        self.transactions = TransactionCoordination(
            self.replicas,
            self._coordination_context(),
            self._transaction_kind,
            self.id,
            self._channels("partitions").send,
            self.producer_ids.next,
            seams.chance,
            lambda: self.broker_configs.settings.verifies_transactions,
        )

    # called by connections of clients

    def route(self, api_key: int, api_version: int) -> Route | None:
        api = KNOWN.get(api_key)
        if api is None or not api.serves(api_version):
            return None
        return Route(decoder(api.request, api_version), self._handler(api_key), self._shortcut(api_key, api_version))

    def partition_count(self) -> int:
        """Returns how many partitions the cluster has."""
        return self.cluster.partition_count()

    def _handler(self, api_key: int) -> Callable[[RequestContext, Any], Reply]:
        if api_key in shared_handlers.SHARED:
            return partial(shared_handlers.load(api_key), self)
        handle = partial(handlers.load(api_key), self)
        if self.audit is None or api_key in shared_handlers.ADMINISTRATIVE:
            return handle  # The Streaming Controller records what it is asked to change.
        from tailrace.server.auditing.audited_changes import audited

        return audited(api_key, handle, self.audit)

    def _shortcut(self, api_key: int, api_version: int) -> NewShortcut | None:
        if api_key != ApiKey.PRODUCE:
            return None
        from tailrace.broker.handlers.records.produce_shortcut import (
            ProduceShortcut,  # as its handler, when the first producer comes
        )

        return partial(ProduceShortcut, self, api_version)

    def end_turn(self) -> None:
        """Sends followers what this turn has appended, flushes logs, and wakes fetches that wait for it.

        `handlers/records/fetch.py` lists everything that wakes a waiting fetch.
        """
        appended = self._appended
        if not appended:
            self.peers.flush()
            return
        self._appended = {}
        for replica in appended:
            if replica.replication is not None and replica.is_leader:
                replica.replication.on_appended()
        self.peers.flush()  # first: the leader and its followers wait for this
        for replica in appended:
            self._flusher.on_appended(replica)
            if replica.waiting_fetches and replica.readable_end == replica.log.log_end:
                replica.on_advanced()  # readers of committed records wake when the high watermark advances

    def on_unreadable(self, error: UnreadableError) -> None:
        key = layout.replica_of_file(error.filename)
        if key is not None:
            self._on_unreadable(key, str(error))

    def _on_unreadable(self, key: ReplicaKey, reason: str) -> None:
        """Takes a replica offline soon. A replica that cannot read its own log must not lead: its followers would never
        catch up. It happens in a task, because the caller is in the middle of sending."""
        self._nursery.start_soon(self._take_offline, key, reason)

    async def _take_offline(self, key: ReplicaKey, reason: str) -> None:
        replica = self.replicas.find(*key)
        if replica is not None:
            replica.go_offline(reason)

    # requests of this SPU to itself

    async def answer(self, api: Api, version: int, request: Any) -> Any:
        """Returns the response that a client would get, before it is encoded: records may still be in their file."""
        context = request_without_connection(api.key, version, ClientIdentity("itself"))
        reply = self._handler(api.key)(context, request)
        response = await reply if isinstance(reply, Coroutine) else reply
        assert response is not None, "requests to itself are answered at once"
        return response

    # called by handlers

    def is_sure_to_lead(self, replica: Replica) -> bool:
        """Whether this SPU holds its lease, so that no other SPU leads the replica. `Lease` has the rules.

        Without a lease another SPU may lead and know more. A leader then still serves, but gives no answer that a
        client cannot take back.
        """
        return replica.is_alone or trio.current_time() < self.lease.end

    async def create_topics(
        self, topics: Sequence[NewTopic], context: RequestContext | None = None
    ) -> list[TopicSpec | KafkaError]:
        return await self.forwarding.create_topics(topics, context)

    def on_appended(self, replica: Replica) -> None:
        """Notes that a handler appended to the replica. `end_turn` wakes the requests that wait for it."""
        self._appended[replica] = None

    # its life

    @property
    def addresses(self) -> list[Address]:
        """The addresses where clients connect."""
        return [listener.address for listener, _ in self._listeners.public]

    @property
    def listening(self) -> list[tuple[str, Address]]:
        """The names and addresses on which this SPU listens for clients."""
        return [(each.name, listener.address) for listener, each in self._listeners.public]

    async def serve(self, stopping: trio.Event, task_status: trio.TaskStatus["Spu | None"]) -> None:
        """Serves until `stopping` is set. Reports itself when clients may connect, or None if it is stopped before."""
        nursery = self._nursery
        nursery.start_soon(self.sc.run)
        nursery.start_soon(self.isolation.watch)
        nursery.start_soon(self.deadlines.run)
        nursery.start_soon(self.peers.run, self._replication, self._listeners.private)
        if self._listeners.metrics is not None:
            self._logger.info("metrics_served", address=str(self._listeners.metrics.address))
            nursery.start_soon(
                MetricsServer(self._scrape, self._readiness, self._logger, self.security.listener(METRICS).tls).serve,
                self._listeners.metrics,
            )
        server: PublicServer | None = None
        if await self._is_ready(stopping):
            server = self._accept_clients()
            addresses = [str(each) for each in self.addresses]
            self._logger.info("spu_started", addresses=addresses, sending=SENDING, syncing=SYNCING)
            self._not_ready = None
        task_status.started(None if server is None else self)
        await stopping.wait()
        self._not_ready = "is stopping"
        if server is not None:
            await server.drain_clients()
        await self._replication.hand_over()
        await self.sc.leave()

    async def close(self) -> None:
        """Brings all data to the disk. Call this when no task runs any more."""
        await self._checkpoint.save()
        await self.storage.shelf_logs.close()
        await self.storage.leave(self.replicas, opened_all=self._dispatcher.has_applied_all)

    async def _is_ready(self, stopping: trio.Event) -> bool:
        """Waits until clients may connect. Returns False if `stopping` is set before."""

        async def wait_until_ready(waiting: trio.CancelScope) -> None:
            await self._receiver.wait_until_ready(self.id)
            waiting.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_until_ready, nursery.cancel_scope)
            await stopping.wait()
            nursery.cancel_scope.cancel()
        return not stopping.is_set()

    async def _readiness(self) -> Readiness:
        """Checks that clients are served. An SPU serves them even while the Streaming Controller is away."""
        await trio.lowlevel.checkpoint()
        if self._not_ready is not None:
            return Readiness(False, f"SPU {self.id} {self._not_ready}")
        if trio.current_time() < self.lease.last_end:
            return Readiness(True, f"SPU {self.id} serves clients and holds its lease")
        return Readiness(True, f"SPU {self.id} serves clients; the Streaming Controller does not respond")

    async def _serve_requests(self, connection: Connection, peer: PeerIdentity) -> None:
        """Serves the requests of another SPU, as soon as clients are served."""
        try:
            await self._clients_may_connect.wait()
        except BaseException:
            connection.close()
            raise
        assert self._clients is not None
        await self._clients.serve_server(connection, self.settings.private.name, spu_principal(peer.spu))

    # wiring

    def _replication_with(
        self, live_replicas: LiveReplicaReporter, seams: Seams, trace: ReplicaTrace | None
    ) -> ReplicaInfoDispatcher:
        return ReplicaInfoDispatcher(
            RoleContext(
                spu=self.id,
                process=self.process,
                store_incarnation=self.storage.incarnation,
                promises=self.storage.promises,
                peers=self.peers,
                live_replicas=live_replicas,
                cluster=self.cluster,
                deadlines=self.deadlines,
                nursery=self._nursery,
                on_appended=self.on_appended,
                end_turn=self.end_turn,
                now=trio.lowlevel.current_clock().current_time,
                write_high_watermarks=self._checkpoint.write,
                checkpoint_is_ahead_of=self._checkpoint.exceeds,
                on_unreadable=self._on_unreadable,
                on_suspected=self.scrubbing.on_suspected,
                metrics=self.metrics,
                logger=self._logger,
                copies=RemoteBulkCopies(self._spu_requests, self.metrics),
                trace=trace,
            )
        )

    def _coordination_context(self) -> CoordinationContext:
        return CoordinationContext(
            cluster=self.cluster,
            is_sure_to_lead=self.is_sure_to_lead,
            wall_clock=self.wall_clock,
            deadlines=self.deadlines,
            nursery=self._nursery,
            on_appended=self.on_appended,
            end_turn=self.end_turn,
            repair=self.scrubbing.repair,
            logger=self._logger,
        )

    def _group_kind(self) -> GroupCoordinatorKind:
        return GroupCoordinatorKind(
            settings=GroupSettingsCache(self.broker_configs, self.cluster).of,
            cluster=self.cluster,
            new_id=lambda: str(self.chance.uuid()),
            counts=self.metrics.groups,
            commit_seconds_max=lambda: self.broker_configs.settings.offsets_commit_timeout_ms / 1000,
        )

    def _channels(self, purpose: str) -> SpuChannels:
        """Returns connections to other SPUs. Purposes have connections of their own if they may wait for each other."""
        return SpuChannels(f"spu-{self.id}-{purpose}", self.cluster, self._dial, self.chance, self._nursery)

    def _transaction_settings(self) -> TransactionSettings:
        settings = self.broker_configs.settings
        return TransactionSettings(settings.transaction_timeout_ms_max, settings.transactional_id_expiration_ms)

    def _new_marker_sender(self) -> "MarkerSender":
        from tailrace.broker.transactions.hosting.marker_sender import MarkerSender  # when the first marker is due

        return MarkerSender(
            self.id,
            self.cluster,
            self._channels("markers").send,
            self._write_markers,
            self.end_turn,
            self.chance,
            self._nursery,
            self._logger,
        )

    def _write_markers(
        self, markers: "Sequence[WritableTxnMarker]", on_written: "Callable[[WriteTxnMarkersResponse], None]"
    ) -> None:
        from tailrace.broker.transactions.markers.marker_writing import write_markers  # when the first marker is due

        write_markers(self, markers, on_written)

    async def _append_audit(self, topic: str, key: bytes, values: "Sequence[bytes]") -> None:
        """Appends lines of an audit log, of this SPU or of the Streaming Controller. Raises OSError."""
        from tailrace.broker.handlers.records.own_records import append_own  # only with an audit log in a topic

        await append_own(self, self._audit_channels.send, topic, key, values)

    def _registration(self) -> Registration:
        private = self._listeners.private
        return Registration(
            self.id,
            incarnation=self.process,
            store_incarnation=self.storage.incarnation,
            stopped_cleanly=self.storage.was_left_cleanly,
            endpoints=(*(_endpoint(*each) for each in self._listeners.public), *_published(self.settings)),
            private=_endpoint(private, self.settings.private),
            protocols=_protocols(self.security, self.settings),
        )

    async def _forget_parked(self, removed: Storage) -> None:
        """Forgets parked storage, in memory and on the disk, before its files go.

        The next start would miss it otherwise. And a log that begins there again would count as the old one.
        """
        self._dispatcher.forget(removed)
        await self._checkpoint.write()
        await self.storage.promises.settle()

    def _accept_clients(self) -> PublicServer:
        nursery, clients_max = self._nursery, spu_clients_max(self.files.descriptors_max())
        server = PublicServer(
            self,
            KNOWN,
            self.broker_configs,
            self.metrics.server,
            self._logger,
            clients_max=clients_max,
            files=self.files,
            quotas=ServerQuotas.of_server(self.cluster, self.broker_configs, self.metrics.server.throttling),
            security=self.security,
            guarding=authorization_of(self.settings.broker, self.cluster, self.broker_configs, self.audit),
            large_requests=self.large_requests,
            audit=self.audit,
            logins=self.security.new_logins(
                self.cluster.security, self._seams, self.metrics.server.logins, self._logger, self.audit
            ),
        )
        self._clients = server
        self._clients_may_connect.set()
        for listener, each in self._listeners.public:
            nursery.start_soon(server.serve, listener, each)
        nursery.start_soon(server.close_idle)
        # Not earlier: until all specs are known, storage that is in use might count as expired.
        nursery.start_soon(self._housekeeping.apply_retention)
        nursery.start_soon(self.offloading.run)
        nursery.start_soon(self._housekeeping.compact)
        nursery.start_soon(self._checkpoint.run)
        nursery.start_soon(self.scrubbing.run)
        nursery.start_soon(self.shelf_keeper.run)
        nursery.start_soon(self.storage_limit.run)
        nursery.start_soon(self.producer_ids.keep_reserve)
        if self.certificates is not None:
            nursery.start_soon(self.certificates.run)
        if self._audit_topic is not None:
            nursery.start_soon(self._audit_topic.run, self._append_audit)
        return server

    async def _scrape(self) -> bytes:
        lags = await self._group_lag.measure()
        now = trio.current_time()
        self.storage_limit.measure()
        gauges = SpuGauges(
            gauge_partitions(self.replicas),
            unsynced_seconds_max(self.replicas, now),
            self.storage_limit.used_bytes,
            self.storage_limit.size_bytes,
            self.shelf_keeper.copies.count,
            self.storage_limit.shelved_bytes,
            count_replicas(self.replicas),
            self.peers.gauges(now),
            gauge_groups(self.groups.groups(), lags, self.groups.pending_offsets),
            gauge_transactions(
                self.transactions.coordinators(), self._transaction_kind.waiting_markers, self.wall_clock.now_ms()
            ),
        )
        text = bytearray(render_spu_metrics(self.metrics, gauges))
        for piece in spu_series(gauges):
            text += piece.encode()
            await trio.lowlevel.checkpoint()
        return bytes(text)


def _endpoint(listener: Listener, settings: ListenerSettings) -> Endpoint:
    address = settings.advertised or listener.address
    return Endpoint(settings.name, address.host, address.port)


def _published(settings: SpuSettings) -> list[Endpoint]:
    """Returns the address at which the port of this SPU's container is published, if there is one."""
    published = settings.published
    return [] if published is None else [Endpoint(PUBLISHED, published.host, published.port)]


def _protocols(security: ServerSecurity, settings: SpuSettings) -> dict[str, str]:
    """Returns the protocols of the listeners that are not plain. A published port leads to the first listener."""
    protocols = {name: str(each.protocol) for name, each in security.listeners.items()}
    first = protocols.get(settings.listeners[0].name)
    return protocols if first is None else {**protocols, PUBLISHED: first}


def _facts(settings: SpuSettings) -> dict[str, str]:
    """Returns the settings that Kafka's tools know as broker configs."""
    listeners = ",".join(f"{each.name}://{each.address}" for each in settings.listeners)
    told = [f"{each.name}://{each.advertised or each.address}" for each in settings.listeners]
    told += [f"{each.listener}://{Address(each.host, each.port)}" for each in _published(settings)]
    return {
        "broker.id": str(settings.id),
        "node.id": str(settings.id),
        "log.dirs": settings.data_directory,
        "listeners": listeners,
        "advertised.listeners": ",".join(told),
    }
