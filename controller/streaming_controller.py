"""The Streaming Controller: wires and runs the workflow, the Connection Manager and the servers.

If several SCs share a store, one is active and the others stand by. A standby SC listens neither for clients nor for
SPUs, so that no one takes it for the active one. An SC that becomes active builds its state from the store, like an SC
that was just started.
"""

from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.controller.administration.admin_requests import AdminRequests
from tailrace.controller.administration.completion import CompletionConditions
from tailrace.controller.administration.object_administration import ObjectAdministration
from tailrace.controller.administration.planned_changes import ChangeWriter
from tailrace.controller.connections.connection_manager import ConnectionManager
from tailrace.controller.connections.private_server import PrivateServer
from tailrace.controller.inspection.controller_documents import controller_rows
from tailrace.controller.key_value.interface import Entry, KeyValueStore, LeadershipLost, StoreUnavailable
from tailrace.controller.key_value.opening import is_shared
from tailrace.controller.objects.identities import new_cluster_id
from tailrace.controller.objects.objects import ClusterIdentity
from tailrace.controller.state.actions import Put
from tailrace.controller.state.events import RebalanceDue, ReconciliationDue, SpusAway
from tailrace.controller.state.object_codec import key_of, security_key
from tailrace.controller.workflow.leadership import lead
from tailrace.controller.workflow.replica_provisioning import ReplicaProvisioner
from tailrace.controller.workflow.updaters import NoProvisioner, Provisioner
from tailrace.controller.workflow.workflow import Workflow, WorkflowCounts
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.describe_server import DescribeServerResponse
from tailrace.runtime.descriptors import controller_clients_max
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address, Listener
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, ScSettings
from tailrace.security.records.security_records import ACL
from tailrace.security.settings.secret import Secret
from tailrace.security.settings.security_settings import METRICS
from tailrace.server.auditing.audit_opening import open_audit
from tailrace.server.authorization.authorizing import authorization_of
from tailrace.server.health import Readiness
from tailrace.server.host import NO_SPU
from tailrace.server.listening import listen
from tailrace.server.metrics_server import MetricsServer
from tailrace.server.public_server import PublicServer
from tailrace.server.security import load_server_security
from tailrace.server.throttling.server_quotas import ServerQuotas

from .public_host import KNOWN, PublicHost
from .sc_metrics import ScGauges, ScMetrics, gauges_of, render

if TYPE_CHECKING:
    from tailrace.controller.administration.archive_requests import ArchiveRequests
    from tailrace.controller.administration.trigger_requests import TriggerRequests
    from tailrace.server.auditing.audit_topic import AuditTopic
    from tailrace.server.auditing.audit_trail import AuditTrail

LOGIN_SECRET_BYTES = 32
STORE_SECONDS_MAX = 2.0
"""How long a check of readiness waits for the store."""


class StartError(Exception):
    """The SC cannot serve; the message is one sentence for the person who started it."""


class ScAddresses(Struct, frozen=True):
    """The addresses at which the SC listens, with the actual ports."""

    public: tuple[Address, ...]
    private: Address
    metrics: Address | None


class StreamingController:
    """The SC, which serves while it is active."""

    def __init__(
        self,
        settings: ScSettings,
        seams: Seams,
        store: KeyValueStore,
        logger: FilteringBoundLogger,
        provisioner: Provisioner | None = None,
        replicas: ReplicaProvisioner | None = None,
    ) -> None:
        """The caller opens the store, which may be shared with other SCs (see `is_shared`), and closes it.

        Raises SettingsError.
        """
        self.metrics = ScMetrics(KNOWN)
        self._settings = settings
        self._seams = seams
        self._store = store
        self._logger = logger = logger.bind()  # A logger that is not bound yet would be bound again for each line.
        self.security = load_server_security(settings.broker, _names(settings), seams.files, logger)
        self._certificates = self.security.watch(seams.wall_clock, logger)
        if self._certificates is not None:
            self.metrics.server.certificate_expiries = self._certificates.expiries
        self._provisioner = provisioner or NoProvisioner(logger)
        self._replicas = replicas
        self._counts = WorkflowCounts()
        self._stopping = trio.Event()
        self._beginning = trio.CancelScope()
        self._serves = False
        self._listening: list[tuple[str, Address]] = []
        self._term: _Term | None = None
        self._audit: AuditTrail | None = None
        self._audit_topic: AuditTopic | None = None

    # running

    def stop(self) -> None:
        """Requests a clean stop; `run` returns when clients have their responses."""
        self._stopping.set()
        if not self._serves:
            self._beginning.cancel()

    async def run(self, task_status: trio.TaskStatus[ScAddresses] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until `stop`. Reports its addresses when SPUs and clients may connect: when it becomes active.

        Raises CannotListenError, SettingsError, StartError, and, at any time, StoreCorrupt.
        """
        with ExitStack() as listening:
            metrics = await self._listen_for_scrapes(listening)
            status = _StartedOnce(task_status)
            settings = self._settings
            audit = await open_audit(
                BrokerConfigs(settings.broker), "sc", settings.data_directory, self._seams, self._logger, self.stop
            )
            if audit is not None:
                self._audit, self._audit_topic = audit
            async with trio.open_nursery() as nursery:
                if self._audit is not None:
                    self.metrics.server.audit = self._audit.counts
                    await nursery.start(self._audit.run)
                if self._certificates is not None:
                    nursery.start_soon(self._certificates.run)
                if metrics is not None:
                    self._logger.info("metrics_served", address=str(metrics.address))
                    tls = self.security.listener(METRICS).tls
                    nursery.start_soon(MetricsServer(self._scrape, self._readiness, self._logger, tls).serve, metrics)
                with self._beginning:
                    if is_shared(self._settings.store):
                        await self._serve_in_turn(metrics, status)
                    else:
                        await self._serve(metrics, status, None)
                nursery.cancel_scope.cancel()
        self._logger.info("sc_stopped")

    async def _serve_in_turn(self, metrics: Listener | None, status: "_StartedOnce") -> None:
        """Serves whenever this SC becomes the active one."""
        name = str(self._settings.private.advertised or self._settings.private.address)
        while not self._stopping.is_set():
            try:
                await lead(self._store, name, partial(self._serve, metrics, status), self._logger)
            except LeadershipLost:
                continue  # `lead` has logged the reason. The state of this SC is outdated and dropped.

    async def _serve(self, metrics: Listener | None, status: "_StartedOnce", guard: Entry | None) -> None:
        """Serves until `stop`, then closes the listeners. Raises LeadershipLost."""
        with ExitStack() as listening:
            private = await self._listen(listening, self._settings.private)
            public = [(await self._listen(listening, each), each) for each in self._settings.listeners]
            self._listening = [(each.name, listener.address) for listener, each in public]
            self._term = term = self._begin_term(guard)
            listening.callback(self._end_term)
            async with trio.open_nursery() as nursery:
                await nursery.start(term.workflow.run, term.connections)
                await self._identify(term.workflow)
                nursery.start_soon(term.connections.run)
                nursery.start_soon(self._reconcile, term)
                nursery.start_soon(self._rebalance, term)
                if self._audit_topic is not None:
                    nursery.start_soon(self._audit_topic.run, term.connections.append_audit)
                private_tls = self.security.listener(self._settings.private.name).tls
                nursery.start_soon(PrivateServer(term.connections, self._logger, private_tls).serve, private)
                clients_max = controller_clients_max(self._seams.files.descriptors_max())
                server = PublicServer(
                    term.host,
                    KNOWN,
                    term.host.broker_configs,
                    self.metrics.server,
                    self._logger,
                    clients_max=clients_max,
                    files=self._seams.files,
                    quotas=term.host.quotas,
                    security=self.security,
                    audit=self._audit,
                    guarding=authorization_of(
                        self._settings.broker, term.host.cluster, term.host.broker_configs, self._audit
                    ),
                    logins=self.security.new_logins(
                        term.host.cluster.security, self._seams, self.metrics.server.logins, self._logger, self._audit
                    ),
                )
                nursery.start_soon(server.close_idle)
                for listener, settings in public:
                    nursery.start_soon(server.serve, listener, settings)
                addresses = ScAddresses(
                    tuple(listener.address for listener, _ in public),
                    private.address,
                    None if metrics is None else metrics.address,
                )
                self._logger.info(
                    "sc_started",
                    cluster_id=term.workflow.cluster.cluster_id,
                    public=[str(each) for each in addresses.public],
                    private=str(addresses.private),
                )
                self._serves = True
                status.started(addresses)
                await self._stopping.wait()
                term.workflow.writes.close()  # Waiting clients get an error at once, so that they ask another SC.
                await server.drain_clients()
                nursery.cancel_scope.cancel()

    # parts

    def _begin_term(self, guard: Entry | None) -> "_Term":
        broker_configs = BrokerConfigs(self._settings.broker)
        workflow = Workflow(
            self._store,
            self._provisioner,
            broker_configs,
            self._seams.wall_clock,
            self._logger,
            guard,
            self._counts,
            self._replicas,
        )
        writer = ChangeWriter(workflow.writes)
        completion = CompletionConditions(workflow.local, workflow.cluster)
        chance = self._seams.chance
        administration = AdminRequests(
            writer,
            completion,
            workflow.local,
            workflow.observed,
            broker_configs,
            self._seams.wall_clock,
            chance,
            self._logger,
        )
        objects = ObjectAdministration(
            administration,
            writer,
            completion,
            workflow.local,
            workflow.observed,
            chance,
            self._logger,
            self._provisioner,
        )
        host = PublicHost(
            workflow.cluster,
            broker_configs,
            ServerQuotas.of_server(workflow.cluster, broker_configs, self.metrics.server.throttling),
            administration,
            objects,
            workflow.local,
            workflow.status_changes,
            lambda spu, request: connections.ask_spu(spu, request),
            lambda: connections.connections(),
            lambda: controller_rows(workflow.local, workflow.decisions),
            lambda: self._describe_server(workflow.cluster.cluster_id),
            lambda: _trigger_requests(writer, workflow),
            lambda: _archive_requests(writer, workflow),
            self._audit,
        )
        connections = ConnectionManager(
            workflow.local,
            workflow.cluster,
            self._seams.network,
            events=workflow.connection_reader.read,
            allocate_producer_ids=administration.allocate_producer_ids,
            forward=host.forward,
            metrics=self.metrics,
            logger=self._logger,
            unreadable=workflow.reader.refused,
            lease_seconds=broker_configs.settings.lease_seconds,
        )
        return _Term(workflow, connections, administration, host)

    def _describe_server(self, cluster_id: str) -> DescribeServerResponse:
        # Imported for the first request, because it is slow to load and rarely used.
        from tailrace.server.server_description import describe_server

        data_directory = "" if is_shared(self._settings.store) else self._settings.data_directory
        return describe_server(
            NO_SPU,
            cluster_id,
            self._listening,
            data_directory,
            self._seams.files,
            self._seams.wall_clock,
            [] if self._certificates is None else self._certificates.certificates(),
        )

    def _end_term(self) -> None:
        self._term = None
        self._serves = False

    async def _identify(self, workflow: Workflow) -> None:
        """Makes sure that the store has the id of the cluster, which the first SC makes for good."""
        key = key_of(ClusterIdentity(""))
        if key in workflow.reader.refused:
            raise StartError(f"the value under {key!r} in the store is not the id of a cluster; see the log")
        rules = security_key(ACL, "")
        unreadable = next((each for each in workflow.reader.refused if each.startswith(rules)), None)
        if unreadable is not None:
            # It may be a rule that denies something, so that nothing is decided without it.
            raise StartError(
                f"the access rule under {unreadable!r} in the store cannot be read, see the log; restore or remove it, "
                "or run the version of Tailrace that wrote it"
            )
        try:
            while workflow.local.identity is None:
                await workflow.writes.write([Put(ClusterIdentity(new_cluster_id(self._seams.chance.uuid)))])
            await self._make_login_secret(workflow)
        except KafkaError as error:
            raise LeadershipLost(error.message) from error

    async def _make_login_secret(self, workflow: Workflow) -> None:
        """Makes the secret that all servers need for logins, if clients can log in. Raises KafkaError."""
        identity = workflow.local.identity
        if identity is None or identity.login_secret.reveal():
            return
        if workflow.cluster.security.users or any(each.sasl for each in self.security.listeners.values()):
            secret = Secret(self._seams.chance.secret(LOGIN_SECRET_BYTES).hex())
            await workflow.writes.write([Put(replace(identity, login_secret=secret))])

    async def _reconcile(self, term: "_Term") -> None:
        """Checks every object again from time to time, and sends SPUs all their specs again."""
        while True:
            seconds, connections = self._settings.replace_after_seconds, term.connections
            await term.workflow.events.send(SpusAway(connections.away(seconds), connections.reports.failed(seconds)))
            await term.workflow.events.send(ReconciliationDue())
            term.connections.reconcile()
            await term.administration.forget_deleted_topics()
            await term.administration.forget_expired_tokens()
            with suppress(KafkaError):  # the next round tries again
                await self._make_login_secret(term.workflow)
            await trio.sleep(self._settings.reconciliation_seconds)

    async def _rebalance(self, term: "_Term") -> None:
        """Returns leaderships to preferred replicas from time to time, if the configs say so."""
        configs = term.host.broker_configs
        while True:
            await trio.sleep(configs.settings.leader_imbalance_check_seconds)
            if configs.settings.rebalances_leaders:
                await term.workflow.events.send(RebalanceDue(term.connections.reports.failed(0)))

    async def _listen(self, listening: ExitStack, settings: ListenerSettings) -> Listener:
        listener = await listen(self._seams.network, settings)
        listening.callback(listener.close)
        return listener

    async def _listen_for_scrapes(self, listening: ExitStack) -> Listener | None:
        settings = self._settings.metrics
        return None if settings is None else await self._listen(listening, settings)

    async def _readiness(self) -> Readiness:
        """Checks that this SC leads and that its store responds. A standby SC is not ready: it serves no requests."""
        try:
            with trio.fail_after(STORE_SECONDS_MAX):
                await self._store.get(key_of(ClusterIdentity("")))
        except StoreUnavailable as error:
            return Readiness(False, f"the store does not respond: {error}")
        except trio.TooSlowError:
            return Readiness(False, f"the store has not responded within {STORE_SECONDS_MAX:g} s")
        if self._stopping.is_set():
            return Readiness(False, "the SC is stopping")
        if self._serves:
            return Readiness(True, "the SC leads and its store responds")
        if self._term is None and is_shared(self._settings.store):
            return Readiness(False, "the SC stands by, because another SC leads")
        return Readiness(False, "the SC is starting")

    async def _scrape(self) -> bytes:
        term = self._term
        gauges = ScGauges() if term is None else gauges_of(term.workflow.local, len(term.connections.connections()))
        return render(self.metrics, self._counts, gauges)


def _names(settings: ScSettings) -> list[str]:
    """Returns the names of the listeners."""
    listeners = (*settings.listeners, settings.private, settings.metrics)
    return [each.name for each in listeners if each is not None]


def _trigger_requests(writer: ChangeWriter, workflow: Workflow) -> "TriggerRequests":
    # Imported for the first request, because many clusters have no triggers.
    from tailrace.controller.administration.trigger_requests import TriggerRequests

    return TriggerRequests(writer, workflow, trio.current_time)


def _archive_requests(writer: ChangeWriter, workflow: Workflow) -> "ArchiveRequests":
    # Imported for the first request, because many clusters have no archives.
    from tailrace.controller.administration.archive_requests import ArchiveRequests

    return ArchiveRequests(writer, workflow.local)


class _Term(Struct, frozen=True):
    """The parts that exist only while this SC is active."""

    workflow: Workflow
    connections: ConnectionManager
    administration: AdminRequests
    host: PublicHost


class _StartedOnce:
    """Reports a start to Trio once, also if the SC becomes active several times."""

    def __init__(self, task_status: trio.TaskStatus[ScAddresses]) -> None:
        self._task_status: trio.TaskStatus[ScAddresses] | None = task_status

    def started(self, addresses: ScAddresses) -> None:
        if self._task_status is not None:
            self._task_status.started(addresses)
            self._task_status = None
