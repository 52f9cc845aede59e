"""A Streaming Processing Unit: wires what serves Kafka clients from the replicas in one data directory, and runs it."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.broker import handlers
from tailrace.broker.controller_link.forwarding import Forwarding
from tailrace.broker.controller_link.isolation import Isolation
from tailrace.broker.controller_link.live_replica_reports import LiveReplicasUpdater
from tailrace.broker.controller_link.mirror_updater import MirrorUpdater
from tailrace.broker.controller_link.producer_ids import ProducerIds, allocate_from
from tailrace.broker.controller_link.registered_rack import RegisteredRack
from tailrace.broker.controller_link.sc_connection import RefusedForGoodError, Registration, ScConnection
from tailrace.broker.controller_link.sc_receiver import ScReceiver
from tailrace.broker.controller_link.spec_dispatcher import SpecDispatcher
from tailrace.broker.copies.batch_copies import FetchedCopies
from tailrace.broker.copies.bulk_copies import FetchedPortions
from tailrace.broker.copies.spu_requests import Spus
from tailrace.broker.descriptions.lag_measurement import GroupLag
from tailrace.broker.descriptions.replica_counts import count_replicas, gauge_partitions, unsynced_seconds_max
from tailrace.broker.descriptions.spu_metrics import Gauges, pieces, render
from tailrace.broker.groups.hosting.group_context import GroupContext
from tailrace.broker.groups.hosting.group_coordination import GroupCoordination
from tailrace.broker.groups.hosting.group_gauges import gauge_groups
from tailrace.broker.groups.hosting.group_settings import SettingsOfGroups
from tailrace.broker.handlers.records.fetch_sessions import FetchSessions
from tailrace.broker.handlers.records.refused_batches import RefusedBatches
from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.peers.peer_messages import PeerIdentity
from tailrace.broker.peers.replica_trace import ReplicaTrace
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.roles.replica_info_dispatcher import ReplicaInfoDispatcher
from tailrace.broker.roles.role_context import RoleContext
from tailrace.broker.shelves.offloading import Shelving
from tailrace.broker.shelves.shelf_keeper import Shelves
from tailrace.broker.shelves.shelf_reads import ShelfReader
from tailrace.broker.spu_counters import KNOWN, BrokerMetrics
from tailrace.broker.upkeep.flusher import Flusher
from tailrace.broker.upkeep.housekeeping import Housekeeping
from tailrace.broker.upkeep.parking import Parking
from tailrace.broker.upkeep.scrubbing import Scrubbing
from tailrace.broker.upkeep.storage_limit import StorageLimit
from tailrace.broker.upkeep.unreadable_logs import UnreadableLogs
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import Endpoint, TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.compile import decoder
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.runtime.descriptors import clients_of_an_spu
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.files import UnreadableError
from tailrace.runtime.network import Address, Listener
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SpuSettings
from tailrace.runtime.system_calls import SENDING, SYNCING
from tailrace.server import handlers as shared_handlers
from tailrace.server.client_connection import Route, Shortcut
from tailrace.server.listening import listen
from tailrace.server.metrics_server import MetricsServer
from tailrace.server.public_server import PublicServer
from tailrace.server.request_context import Reply, RequestContext, request_without_connection
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import ReplicaKey

from .spu_storage import SpuStorage, StartError

FETCH_SESSION_PARTITIONS_MAX = 100_000


class Spu:
    def __init__(
        self, settings: SpuSettings, seams: Seams, logger: FilteringBoundLogger, *, traces: bool = False
    ) -> None:
        """`traces`: says at the level debug which way each message about a replica takes."""
        self.id = SpuId(settings.id)
        self.settings = settings
        self.data_directory = settings.data_directory
        self.files = seams.files
        self.wall_clock = seams.wall_clock
        self.chance = seams.chance
        self.metrics = BrokerMetrics()
        self.broker_configs = BrokerConfigs(settings.broker, _facts(settings))
        self.cluster = Cluster()
        self.replicas = ReplicaRegistry(self.id, self.cluster)
        self._logger = logger.bind(spu=settings.id)
        self._trace = ReplicaTrace(self._logger) if traces else None
        self.deadlines = Deadlines()
        self.refused_batches = RefusedBatches()
        self.fetch_sessions = FetchSessions(
            seams.chance, self.broker_configs.settings.fetch_sessions_max, FETCH_SESSION_PARTITIONS_MAX
        )
        self.parking = Parking(self.data_directory, self.files, self.wall_clock)
        self._network = seams.network
        self._storage = SpuStorage(self.id, self.data_directory, self.files, self.chance, self.parking, self._logger)
        self._housekeeping = Housekeeping(
            self.data_directory,
            self.files,
            self.wall_clock,
            self.replicas,
            self.parking,
            self.broker_configs,
            self._storage.closed,
            self._logger,
        )
        self.parking.write_down = self._write_down_removal
        self._spus = Spus(self.id, self.cluster, self._network, self.answer)
        self.storage_limit = StorageLimit(
            self.replicas, self.metrics, self._logger, lambda: self.shelves.copies.size_bytes
        )
        self.shelves = Shelves(
            self._spus,
            self._storage.shelf_logs,
            self.storage_limit.check_room,
            self.broker_configs,
            self.metrics,
            self._logger,
        )
        self.shelf_reader = ShelfReader(self._spus, self.metrics, self._logger)
        copies = FetchedCopies(self._spus)
        self._scrubbing = Scrubbing(self.replicas, copies, self.broker_configs, self.metrics, self._logger)
        self._scrubbing.also = self.shelves.scrubbing.scrub
        self.apis = API_TABLE
        self._appended: dict[Replica, None] = {}
        self._flusher: Flusher | None = None
        self._stopping = trio.Event()
        self._dispatcher: SpecDispatcher | None = None
        self._nursery: trio.Nursery
        self._process = str(seams.chance.uuid())
        self.peers: PeerLinks
        self._mirror = MirrorUpdater(self.cluster, self.id)
        self._mirror.rack_watcher = RegisteredRack(settings.rack, self.broker_configs, self._logger).on_registered
        self.sc: ScConnection
        self.isolation: Isolation
        self.groups: GroupCoordination
        self.forwarding: Forwarding
        self.producer_ids: ProducerIds
        self.shelving: Shelving

    # what clients' connections call

    def route(self, api_key: int, api_version: int) -> Route | None:
        api = KNOWN.get(api_key)
        if api is None or not api.serves(api_version):
            return None
        return Route(decoder(api.request, api_version), self._handler(api_key), self._shortcut(api_key, api_version))

    def _handler(self, api_key: int) -> Callable[[RequestContext, Any], Reply]:
        if api_key in shared_handlers.SHARED:
            return partial(shared_handlers.load(api_key), self)
        return partial(handlers.load(api_key), self)

    def _shortcut(self, api_key: int, api_version: int) -> Callable[[], Shortcut] | None:
        if api_key != ApiKey.PRODUCE:
            return None
        from tailrace.broker.handlers.records.produce_shortcut import (
            ProduceShortcut,  # as its handler, when the first producer comes
        )

        return partial(ProduceShortcut, self, api_version)

    def end_turn(self) -> None:
        appended = self._appended
        if not appended:
            self.peers.flush()
            return
        self._appended = {}
        for replica in appended:
            if replica.replication is not None and replica.is_leader:
                replica.replication.on_appended()
        self.peers.flush()  # first of all: a leader, or its followers, wait for this
        assert self._flusher is not None
        for replica in appended:
            self._flusher.on_appended(replica)
            if replica.waiting_fetches and replica.readable_end == replica.log.log_end:
                replica.on_advanced()  # what has to be committed first is told then

    def on_unreadable(self, error: UnreadableError) -> None:
        key = layout.replica_of_file(error.filename)
        if key is not None:
            self._on_unreadable(key, str(error))

    def _on_unreadable(self, key: ReplicaKey, reason: str) -> None:
        """Who cannot read its own log must not lead: its followers would never get what they lack. Not at once, for
        others are just being sent what they wait for."""
        self._nursery.start_soon(self._take_offline, key, reason)

    async def _take_offline(self, key: ReplicaKey, reason: str) -> None:
        replica = self.replicas.find(*key)
        if replica is not None:
            replica.go_offline(reason)

    async def _write_down_removal(self) -> None:
        """Of storage: it is not missed at the next start, nor believed to be what it was if it begins with nothing."""
        await self._housekeeping.write_high_watermarks()
        await self._storage.promises.settle()

    # what it asks itself

    async def answer(self, api: Api, version: int, request: Any) -> Any:
        """What a client would be answered, before it is encoded: records may still lie in their file."""
        reply = self._handler(api.key)(request_without_connection(api.key, version, "itself"), request)
        response = await reply if isinstance(reply, Coroutine) else reply
        assert response is not None, "nobody here asks what is answered later"
        return response

    # what handlers call

    def is_sure_to_lead(self, replica: Replica) -> bool:
        """Without a lease others may lead by now, and know more: a leader serves on, but gives no verdict that a
        client cannot take back."""
        return replica.is_alone or trio.current_time() < self.sc.lease_end

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[TopicSpec | KafkaError]:
        return await self.forwarding.create_topics(topics)

    def on_appended(self, replica: Replica) -> None:
        """A handler appended to the replica; who waits for that is woken at the end of the turn."""
        self._appended[replica] = None

    # life

    def stop(self) -> None:
        """Asks for a clean stop; `run` returns when everything is on the disk."""
        self._stopping.set()

    async def run(self, task_status: trio.TaskStatus[list[Address]] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until `stop`. Reports the addresses of its listeners when clients may come, which is when the
        Streaming Controller has said what belongs here; none, if it is stopped before. Raises StartError."""
        refused: BaseException | None = None
        with ExitStack() as held:
            self._housekeeping.begin_with(await self._storage.take(held))
            try:
                with ExitStack() as listening:
                    await self._serve(listening, task_status)
            except* RefusedForGoodError as errors:
                refused = first_error(errors)
            # Nobody can connect any more: who tries learns at once that this SPU has gone.
            await self._housekeeping.save_high_watermarks()
            await self._storage.shelf_logs.close()
            has_opened_all = self._dispatcher is not None and self._dispatcher.has_applied_all
            await self._storage.leave(self.replicas, opened_all=has_opened_all)
        if refused is not None:
            raise StartError(str(refused)) from refused
        self._logger.info("spu_stopped")

    async def _serve(self, listening: ExitStack, task_status: trio.TaskStatus[list[Address]]) -> None:
        """Until `stop`. The listeners close with the stack."""
        public = [(await self._listen(listening, each), each) for each in self.settings.listeners]
        private = await self._listen(listening, self.settings.private)
        metrics = None if self.settings.metrics is None else await self._listen(listening, self.settings.metrics)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.peers = PeerLinks(
                PeerIdentity(self.id, self._storage.incarnation, self._process),
                self.cluster,
                self._network,
                self.chance,
                self._logger,
                self._trace,
            )
            live_replicas = LiveReplicasUpdater(self.replicas, self.metrics, self._logger)
            replication = self._replication(nursery, live_replicas)
            self.groups = GroupCoordination(self.replicas, self._group_context(nursery))
            self._group_lag = GroupLag(self._spus, self.groups.committed, self.cluster, self.wall_clock)
            receiver = self._receiver(nursery, replication, live_replicas)
            sc = self._connection(receiver, [_endpoint(*each) for each in public], private)
            self.sc = sc
            self.isolation = Isolation(self.replicas, lambda: sc.last_lease_end, self._logger)
            self.forwarding = Forwarding(sc, self.cluster, self._mirror)
            self.producer_ids = ProducerIds(partial(allocate_from, sc.request))
            self.shelving = Shelving(
                self._spus,
                self.replicas,
                self.broker_configs,
                self.wall_clock,
                sc.report_shelves,
                self._logger,
            )
            nursery.start_soon(sc.run)
            nursery.start_soon(self.isolation.watch)
            nursery.start_soon(self.deadlines.run)
            nursery.start_soon(self.peers.run, replication, private)
            if metrics is not None:
                self._logger.info("metrics_served", address=str(metrics.address))
                nursery.start_soon(MetricsServer(self._scrape, self._logger).serve, metrics)
            addresses: list[Address] = []
            if await self._is_ready(receiver):
                addresses = [listener.address for listener, _ in public]
                server = self._accept_clients(nursery, public)
                listening_at = [str(each) for each in addresses]
                self._logger.info("spu_started", addresses=listening_at, sending=SENDING, syncing=SYNCING)
            task_status.started(addresses)
            await self._stopping.wait()
            if addresses:
                await server.see_off_clients()
            await replication.hand_over()
            await sc.leave()
            nursery.cancel_scope.cancel()

    async def _listen(self, listening: ExitStack, settings: ListenerSettings) -> Listener:
        listener = await listen(self._network, settings)
        listening.callback(listener.close)
        return listener

    async def _is_ready(self, receiver: ScReceiver) -> bool:
        """Whether clients may come; False when it is stopped before."""

        async def wait_until_ready(waiting: trio.CancelScope) -> None:
            await receiver.ready(self.id)
            waiting.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_until_ready, nursery.cancel_scope)
            await self._stopping.wait()
            nursery.cancel_scope.cancel()
        return not self._stopping.is_set()

    def _replication(self, nursery: trio.Nursery, live_replicas: LiveReplicasUpdater) -> ReplicaInfoDispatcher:
        return ReplicaInfoDispatcher(
            RoleContext(
                self.id,
                self._process,
                self._storage.incarnation,
                self._storage.promises,
                self.peers,
                live_replicas,
                self.cluster,
                self.deadlines,
                nursery,
                self.on_appended,
                self.end_turn,
                trio.lowlevel.current_clock().current_time,
                self._housekeeping.write_high_watermarks,
                self._housekeeping.checkpoint_is_ahead_of,
                self._on_unreadable,
                self._scrubbing.on_suspected,
                self.metrics,
                self._logger,
                FetchedPortions(self._spus, self.metrics),
                self._trace,
            )
        )

    def _group_context(self, nursery: trio.Nursery) -> GroupContext:
        return GroupContext(
            self.cluster,
            SettingsOfGroups(self.broker_configs, self.cluster).of,
            lambda: self.broker_configs.settings.offsets_commit_timeout_ms / 1000,
            lambda: str(self.chance.uuid()),
            self.metrics.groups,
            self.is_sure_to_lead,
            self.wall_clock,
            self.deadlines,
            nursery,
            self.on_appended,
            self.end_turn,
            self._scrubbing.mend,
            self._logger,
        )

    def _receiver(
        self, nursery: trio.Nursery, replication: ReplicaInfoDispatcher, live_replicas: LiveReplicasUpdater
    ) -> ScReceiver:
        self._flusher = Flusher(nursery, self.deadlines, self.metrics)
        self._dispatcher = SpecDispatcher(
            self.id,
            self.data_directory,
            self.files,
            self.replicas,
            self.parking,
            self.broker_configs,
            self._flusher,
            self.metrics,
            replication,
            self._storage.closed,
            UnreadableLogs(nursery, self._scrubbing.mend_or_cut, self._storage.closed),
            self._logger,
        )
        self._dispatcher.on_shelved = self.shelves.copies.apply
        return ScReceiver(
            self.id,
            self._dispatcher,
            self._mirror,
            live_replicas,
            replication,
            self.replicas,
            self.cluster,
            self.storage_limit,
        )

    def _connection(self, receiver: ScReceiver, public: list[Endpoint], private: Listener) -> ScConnection:
        registration = Registration(
            self.id,
            incarnation=self._process,
            store_incarnation=self._storage.incarnation,
            stopped_cleanly=self._storage.was_left_cleanly,
            endpoints=tuple(public),
            private=_endpoint(private, self.settings.private),
        )
        return ScConnection(
            registration,
            self.settings.controllers,
            self._network,
            self.chance,
            receiver,
            self._storage.identity,
            self._logger,
        )

    def _accept_clients(
        self, nursery: trio.Nursery, listeners: list[tuple[Listener, ListenerSettings]]
    ) -> PublicServer:
        clients_max = clients_of_an_spu(self.files.descriptors_max())
        server = PublicServer(
            self, KNOWN, self.broker_configs, self.metrics.server, self._logger, clients_max=clients_max
        )
        for listener, each in listeners:
            nursery.start_soon(server.serve, listener, each)
        nursery.start_soon(server.close_idle)
        # Not before: until all specs are known, no storage may be taken for one that has had its time.
        nursery.start_soon(self._housekeeping.apply_retention)
        nursery.start_soon(self.shelving.run)
        nursery.start_soon(self._housekeeping.compact)
        nursery.start_soon(self._housekeeping.checkpoint_high_watermarks)
        nursery.start_soon(self._scrubbing.run)
        nursery.start_soon(self.shelves.run)
        nursery.start_soon(self.storage_limit.run)
        nursery.start_soon(self.producer_ids.keep_reserve)
        return server

    async def _scrape(self) -> bytes:
        lags = await self._group_lag.measure()
        now = trio.current_time()
        self.storage_limit.measure()
        gauges = Gauges(
            gauge_partitions(self.replicas),
            unsynced_seconds_max(self.replicas, now),
            self.storage_limit.used_bytes,
            self.storage_limit.size_bytes,
            self.shelves.copies.count,
            self.storage_limit.shelved_bytes,
            count_replicas(self.replicas),
            self.peers.gauges(now),
            gauge_groups(self.groups.groups(), lags),
        )
        text = bytearray(render(self.metrics, gauges))
        for piece in pieces(gauges):
            text += piece.encode()
            await trio.lowlevel.checkpoint()
        return bytes(text)


def _endpoint(listener: Listener, settings: ListenerSettings) -> Endpoint:
    address = settings.advertised or listener.address
    return Endpoint(settings.name, address.host, address.port)


def _facts(settings: SpuSettings) -> dict[str, str]:
    """What stands elsewhere in our settings but is a broker config to Kafka's tools."""
    listeners = ",".join(f"{each.name}://{each.address}" for each in settings.listeners)
    advertised = ",".join(f"{each.name}://{each.advertised or each.address}" for each in settings.listeners)
    return {
        "broker.id": str(settings.id),
        "node.id": str(settings.id),
        "log.dirs": settings.data_directory,
        "listeners": listeners,
        "advertised.listeners": advertised,
    }
