"""`tailrace up`: runs a whole local cluster, ready for any Kafka client.

The cluster is a Streaming Controller (SC) with the SPU group `main`. A single SPU runs in this process, and several
SPUs run as child processes. The command prints one line on standard output when all SPUs are ready:
`ready bootstrap=HOST:PORT[,HOST:PORT] sc=HOST:PORT data=DIR in N ms`.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.broker.spu_storage import StartError as SpuStartError
from tailrace.controller.key_value.interface import NO_VERSION, KeyValueStore, Put, StoreCorrupt, StoreUnavailable
from tailrace.controller.key_value.opening import MEMORY, SQLITE
from tailrace.controller.objects.objects import (
    GROUP_REPLICAS_MAX,
    PrivateEndpoint,
    PublicEndpoint,
    Spu,
    SpuGroup,
    SpuGroupSpec,
    SpuSpec,
    SpuTemplate,
    Topic,
)
from tailrace.controller.spus.local_provisioner import LocalProvisioner
from tailrace.controller.spus.spu_selection import ids_of
from tailrace.controller.state.object_codec import ObjectError, decode, encode, key_of
from tailrace.controller.streaming_controller import ScAddresses, StreamingController
from tailrace.controller.streaming_controller import StartError as ScStartError
from tailrace.protocol.ids import SpuId
from tailrace.runtime import logs
from tailrace.runtime.network import Address, Network
from tailrace.runtime.process import ServerStop, stop_with_parent
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, ScSettings, SettingsError

from . import serve_sc, serve_spu
from .first_topics import FirstTopic, create_missing, first_topics
from .given_settings import GivenSettings
from .local_launcher import LocalLauncher
from .managed_spus import FIRST_ID, GROUP, ManagedSpus
from .replicas_on_demand import ReplicasOnDemand
from .sc_store import opened_store
from .security_check import check_security
from .serving import (
    COMMON_NAMES,
    CannotServeError,
    LogSettings,
    add_common_flags,
    add_published,
    add_until_input_ends,
    announce,
    log_settings,
    run_server,
)

if TYPE_CHECKING:
    from tailrace.controller.triggers.kept_replicas import KeptReplicas

NAMES = COMMON_NAMES | {"spus", "private", "published", "sc", "sc-private", "topic", "ephemeral", "secure"}
DEFAULT_LISTENERS = (
    ListenerSettings("PUBLIC", serve_spu.DEFAULT_PUBLIC),
    ListenerSettings("PUBLIC_1", Address("127.0.0.1", 9092)),
)

BROKER_DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
"""The broker configs that differ from those of other servers: the first local consumer need not wait for others."""

EPHEMERAL_DEFAULTS = {"log.flush.interval.ms": str(2**63 - 1), "log.flush.interval.bytes": str(2**63 - 1)}
"""The broker configs of an ephemeral cluster: it syncs nothing to the disk, because it removes its data at the end."""

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")
TOPICS = "topic/"
"""The prefix of the keys of topics in the store."""

OUTDATED_FILE = "controller.json"
"""The file of a data directory from before there was a Streaming Controller."""


class UpSettings(Struct, frozen=True):
    """The settings of the whole cluster."""

    sc: ScSettings
    spus: int | None
    """The number of SPUs; None for as many as last time, or one the first time."""
    managed: ManagedSpus
    log: LogSettings
    topics: tuple[FirstTopic, ...] = ()
    """The topics that exist when the cluster is ready."""
    is_ephemeral: bool = False
    """Whether the data is in a temporary directory. Then the data directory is where that directory is made."""
    is_secure: bool = False
    """Whether the cluster is closed to strangers, also if it was open before."""
    given: tuple[str, ...] = ()
    """The broker settings that were given, by name."""

    def in_directory(self, path: str) -> "UpSettings":
        """Returns these settings with another data directory, and a store in memory."""
        return replace(
            self,
            sc=replace(self.sc, data_directory=f"{path}/sc", store=MEMORY),
            managed=replace(self.managed, data_directory=path),
        )


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    public = ",".join(str(each.address) for each in DEFAULT_LISTENERS)
    add_common_flags(parser, public=public, metrics=str(serve_spu.DEFAULT_METRICS))
    parser.add_argument(
        "--topic",
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        action="append",
        help="Topic to create before the cluster is ready, unless it exists. May be repeated.",
    )
    parser.add_argument(
        "--ephemeral",
        action="store_const",
        const="true",
        help="Keep the data in a temporary directory (in DIR if --data is given), and remove it at the end.",
    )
    parser.add_argument(
        "--secure",
        action="store_const",
        const="true",
        help="Close the cluster: TLS on all ports for clients and between servers, users with passwords, and access "
        "rules. The first start prints the password of the user admin. A cluster that was closed stays so.",
    )
    parser.add_argument("--spus", metavar="N", help="Number of SPUs (default: as many as last time, the first time 1).")
    parser.add_argument(
        "--private",
        metavar="HOST:PORT",
        help=f"Address of the first SPU for other SPUs (default: {serve_spu.DEFAULT_PRIVATE}, or a free port).",
    )
    parser.add_argument(
        "--sc",
        metavar="HOST:PORT",
        help=f"Address of the Streaming Controller for admin clients and this command line "
        f"(default: {serve_sc.DEFAULT_PUBLIC}, or a free port).",
    )
    parser.add_argument(
        "--sc-private",
        metavar="HOST:PORT",
        help=f"Address of the Streaming Controller for SPUs (default: {serve_sc.DEFAULT_PRIVATE}, or a free port).",
    )
    add_published(parser)
    add_until_input_ends(parser, "the cluster")


def run(arguments: argparse.Namespace) -> int:
    """Runs the cluster and returns the exit status."""

    async def serve(settings: UpSettings, seams: Seams, stop: ServerStop) -> None:
        await _up(settings, seams, stop, until_input_ends=arguments.until_input_ends)

    return run_server("up", arguments, NAMES, read_settings, serve, (SpuStartError, ScStartError, StoreCorrupt))


def read_settings(given: GivenSettings) -> UpSettings:
    """Reads the settings of the whole cluster."""
    is_ephemeral = given.switch("ephemeral")
    data = _directory_for_temporary_files() if is_ephemeral and not given.has("data") else given.data_directory()
    broker = broker_defaults(given) | given.broker_settings()
    metrics = given.metrics_listener(serve_spu.DEFAULT_METRICS)
    sc = ScSettings(
        f"{data}/sc",
        (given.listener("sc", ListenerSettings("PUBLIC", serve_sc.DEFAULT_PUBLIC, may_move=True)),),
        given.listener("sc-private", ListenerSettings("PRIVATE", serve_sc.DEFAULT_PRIVATE, may_move=True)),
        SQLITE,
        # Metrics of the SC matter less than those of SPUs, so they may move to any free port.
        None if metrics is None else ListenerSettings("METRICS", serve_sc.DEFAULT_METRICS, may_move=True),
        broker=broker,
    )
    listeners = given.listeners(*DEFAULT_LISTENERS)
    managed = ManagedSpus(
        data,
        listeners,
        given.listener("private", ListenerSettings("PRIVATE", serve_spu.DEFAULT_PRIVATE, may_move=True)),
        metrics,
        broker,
        are_listeners_chosen=given.has("public"),
        published=given.published(listeners),
    )
    check_security(broker, (*listeners, managed.private, metrics))
    return UpSettings(
        sc,
        given.whole_number("spus", 1, GROUP_REPLICAS_MAX),
        managed,
        log_settings(given),
        first_topics(given.texts("topic")) if given.has("topic") else (),
        is_ephemeral,
        given.switch("secure"),
        tuple(given.broker_settings()),
    )


def _directory_for_temporary_files() -> str:
    import tempfile  # imported here because few clusters are ephemeral

    return tempfile.gettempdir()


def broker_defaults(given: GivenSettings) -> dict[str, str]:
    """Returns the broker configs that the cluster sets by itself, unless others are given."""
    return BROKER_DEFAULTS | (EPHEMERAL_DEFAULTS if given.switch("ephemeral") else {})


async def _up(settings: UpSettings, seams: Seams, stop: ServerStop, *, until_input_ends: bool) -> None:
    if not settings.is_ephemeral:
        await _up_in_directory(settings, seams, stop, until_input_ends=until_input_ends)
        return
    from tailrace.runtime.neighbours.ephemeral_directory import ephemeral_directory

    parent = settings.managed.data_directory
    async with AsyncExitStack() as stack:
        try:
            path = await stack.enter_async_context(ephemeral_directory(seams.files, parent))
        except OSError as error:
            raise CannotServeError(f"{parent}: {error.strerror}; choose another directory with --data") from error
        await _up_in_directory(settings.in_directory(path), seams, stop, until_input_ends=until_input_ends)


async def _up_in_directory(settings: UpSettings, seams: Seams, stop: ServerStop, *, until_input_ends: bool) -> None:
    if seams.files.exists(f"{settings.managed.data_directory}/{OUTDATED_FILE}"):
        raise CannotServeError(
            f"{settings.managed.data_directory} has data of an old version without a Streaming Controller, which "
            "this version cannot read; choose another directory"
        )
    async with opened_store(settings.sc.store, settings.sc.data_directory, seams, logs.get_logger()) as store:
        try:
            group = await with_main_group(store, settings.spus, settings.managed)
        except (StoreCorrupt, StoreUnavailable, ObjectError) as error:
            raise CannotServeError(str(error)) from error
        settings, password = await _secured(settings, store, seams)
        stop.server = cluster = _Cluster(settings, group, store, seams, password)
        async with trio.open_nursery() as nursery:
            if until_input_ends:
                nursery.start_soon(stop_with_parent, cluster, nursery.cancel_scope)
            await cluster.run()
            nursery.cancel_scope.cancel()


async def _secured(settings: UpSettings, store: KeyValueStore, seams: Seams) -> tuple[UpSettings, str | None]:
    """Returns the settings of a closed cluster, and the password of its first user if that is new.

    An open cluster keeps its settings. Raises CannotServeError.
    """
    data = settings.managed.data_directory
    if not settings.is_secure and not seams.files.exists(f"{data}/security"):
        return settings, None
    # Imported here because making certificates takes a large library, and most local clusters are open.
    from .first_user import ensure_first_user
    from .secured_cluster import SecuredCluster, check_given, hosts_of

    hosts = hosts_of((*settings.sc.listeners, *settings.managed.listeners))
    cluster = SecuredCluster(data, hosts, seams)
    try:
        check_given(settings.given)
        if not settings.is_secure:
            cluster.check_authority()
        cluster.prepare()
        password = await ensure_first_user(cluster, store, seams.chance)
        sc = replace(settings.sc, broker={**cluster.sc_settings(), **settings.sc.broker})
    except (OSError, StoreCorrupt, StoreUnavailable, ObjectError, SettingsError) as error:
        raise CannotServeError(f"the cluster cannot be secured: {error}") from error
    return replace(settings, sc=sc, managed=replace(settings.managed, secured=cluster)), password


class _Cluster:
    """The SC and the SPUs that it provisions, from start to stop."""

    def __init__(
        self, settings: UpSettings, group: SpuGroup, store: KeyValueStore, seams: Seams, password: str | None
    ) -> None:
        """`password` is that of the first user, if it has to be shown."""
        self._settings = settings
        self._password = password
        self._spus = ids_of(group.spec)
        self._store = store
        self._seams = seams
        self._stopping = trio.Event()
        self._beginning = trio.CancelScope()
        self._failure: CannotServeError | None = None

    def stop(self) -> None:
        """Begins a clean stop."""
        self._stopping.set()
        self._beginning.cancel()

    async def run(self) -> None:
        """Runs the cluster until it is stopped."""
        logger = logs.get_logger()
        async with trio.open_nursery() as nursery:
            here = SpuId(self._spus[0]) if len(self._spus) == 1 else None
            launcher = LocalLauncher(self._settings.managed, here, self._seams, self._settings.log, nursery)
            provisioner = LocalProvisioner(launcher, logger)
            replicas = ReplicasOnDemand(self._make_replicas, nursery)
            controller = StreamingController(
                self._settings.sc, self._seams, self._store, logger, provisioner=provisioner, replicas=replicas
            )
            await nursery.start(provisioner.run)
            async with trio.open_nursery() as serving:
                with self._beginning:
                    served: ScAddresses = await serving.start(controller.run)
                    launcher.on_controller(served.private)
                    replicas.on_controller(served.public[0])
                    # In the outer nursery, because a stop waits for `serving`, but a stopped SPU never becomes ready.
                    nursery.start_soon(self._announce, launcher, served)
                await self._stopping.wait()
                await replicas.stop()  # first of all, because replicas commit what they have handled
                await provisioner.stop()
                controller.stop()
            nursery.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    def _make_replicas(self, controller: Address) -> "KeptReplicas":
        # Imported for the first trigger, because many clusters have none.
        from tailrace.controller.triggers.kept_replicas import KeptReplicas
        from tailrace.runtime.child_process import environment_without
        from tailrace.runtime.settings_sources import CLIENT_CONFIG_VARIABLE, ENVIRONMENT_PREFIX

        from .replica_launcher import ChildReplicaLauncher

        data, environment = self._settings.managed.data_directory, environment_without(ENVIRONMENT_PREFIX)
        secured = self._settings.managed.secured
        if secured is not None:
            environment[CLIENT_CONFIG_VARIABLE] = secured.client_config
        return KeptReplicas(ChildReplicaLauncher(data, controller, environment, self._seams.files), logs.get_logger())

    async def _announce(self, launcher: LocalLauncher, served: ScAddresses) -> None:
        try:
            addresses = await launcher.first_addresses(map(SpuId, self._spus))
            if self._settings.topics:
                await create_missing(self._settings.topics, addresses[0], self._client_network())
        except CannotServeError as error:
            self._failure = error
            self.stop()
            return
        for sentence in (*moves(self._settings.sc, served), *metrics_moves(launcher.moved_metrics)):
            print(f"tailrace up: {sentence}", file=sys.stderr, flush=True)
        self._tell_password()
        announce(serving(addresses, served.public[0], self._settings.managed.data_directory))
        hint = await self._replication_hint(served.public[0])
        if hint is not None:
            print(f"tailrace up: {hint}", file=sys.stderr, flush=True)

    def _client_network(self) -> Network:
        """Returns the network for clients of this cluster."""
        secured = self._settings.managed.secured
        if secured is None:
            return self._seams.network
        from tailrace.client.client_security import load_client_security
        from tailrace.client.secure_network import SecureNetwork

        try:
            security = load_client_security(secured.client_config, self._seams.files)
            return SecureNetwork(self._seams.network, security, self._seams.files, self._seams.chance)
        except (SettingsError, OSError) as error:
            raise CannotServeError(f"--topic: {error}") from error

    def _tell_password(self) -> None:
        secured = self._settings.managed.secured
        if secured is None:
            return
        sentences = [f"the cluster is secure. For commands: export TAILRACE_CLIENT_CONFIG={secured.client_config}"]
        if self._password is not None:
            sentences[:0] = [f"the user admin has the password {self._password} (shown only now)"]
        for sentence in sentences:
            print(f"tailrace up: {sentence}", file=sys.stderr, flush=True)

    async def _replication_hint(self, sc: Address) -> str | None:
        """Returns a sentence about topics with fewer replicas than they could have now."""
        if len(self._spus) == 1:
            return None
        from .replication_hint import replication_hint, sc_options  # imported here: many clusters have one SPU

        try:
            entries = (await self._store.list(TOPICS)).entries
            found = [decode(each.key, each.value, each.version) for each in entries]
        except (StoreCorrupt, StoreUnavailable, ObjectError):
            return None  # The SC reports this by itself.
        topics = [each for each in found if isinstance(each, Topic)]
        return replication_hint(topics, len(self._spus), sc_options(sc, serve_sc.DEFAULT_PUBLIC))


def serving(bootstrap: Sequence[Address], sc: Address, data_directory: str) -> str:
    """Returns where a cluster serves, as in the ready line, with the directory quoted for shells."""
    quoted = data_directory
    if not _PLAIN_PATH.fullmatch(data_directory):
        import shlex  # imported here because few directories need it

        quoted = shlex.quote(data_directory)
    return f"bootstrap={','.join(map(str, bootstrap))} sc={sc} data={quoted}"


def moves(settings: ScSettings, served: ScAddresses) -> Iterator[str]:
    """Says which ports of the SC differ from the usual ones, and how commands reach the SC there.

    Without this, a command that names no SC would act on the other cluster, which has the usual port.
    """
    usual, public = settings.listeners[0], served.public[0]
    if usual.may_move and public.port != usual.address.port:
        yield (
            f"port {usual.address.port} is in use, perhaps by another cluster, so the SC of this one is at {public}."
            f" Give commands --sc {public}, or set it once: export TAILRACE_SC={public}"
        )


def metrics_moves(moved: Mapping[SpuId, int]) -> Iterator[str]:
    """Says for which SPUs the metrics are not at their usual port, where another cluster may answer."""
    for spu, port in sorted(moved.items()):
        yield (
            f"port {port} is in use, so the metrics of SPU {spu} are at another port: the log line metrics_served "
            "names it, and --metrics HOST:PORT chooses one"
        )


async def with_main_group(store: KeyValueStore, replicas: int | None, managed: ManagedSpus) -> SpuGroup:
    """Returns the group `main`, which is created if necessary; `replicas`, if given, replaces its number of SPUs.

    The addresses in its template are those of the settings, and so are those in the specs of its SPUs.
    """
    new = _new_group(replicas or 1, managed)
    entry = await store.get(key_of(new))
    if entry is None:
        group = before = new
    else:
        found = decode(entry.key, entry.value, entry.version)
        assert isinstance(found, SpuGroup)
        before = found
        template = replace(before.spec.template, public=new.spec.template.public, private=new.spec.template.private)
        group = replace(before, spec=replace(before.spec, replicas=replicas or before.spec.replicas, template=template))
    moved = [await _checked_spu(store, SpuId(spu_id)) for spu_id in ids_of(group.spec)]
    if entry is None or group != before:
        writes = [Put(key_of(group), encode(group), NO_VERSION if entry is None else entry.version)]
        if group.spec.template != before.spec.template:
            writes += [_moved_spu(spu, group) for spu in moved if spu is not None]
        await store.write(writes)
    return group


def _moved_spu(spu: Spu, group: SpuGroup) -> Put:
    template = group.spec.template
    moved = replace(spu, spec=replace(spu.spec, public=template.public, private=template.private))
    return Put(key_of(moved), encode(moved), spu.version)


def _new_group(replicas: int, managed: ManagedSpus) -> SpuGroup:
    public, private = managed.listeners[0].address, managed.private.address
    template = SpuTemplate(
        public=PublicEndpoint(public.port, (public.host,)),
        private=PrivateEndpoint(private.port, private.host),
        size_bytes=None,
    )
    return SpuGroup(GROUP, SpuGroupSpec(replicas, FIRST_ID, template))


async def _checked_spu(store: KeyValueStore, spu: SpuId) -> Spu | None:
    """Returns the SPU of the group, or None if it does not exist. Raises CannotServeError if it is not the group's."""
    entry = await store.get(key_of(Spu(SpuSpec(spu))))
    found = None if entry is None else decode(entry.key, entry.value, entry.version)
    if isinstance(found, Spu) and found.spec.group != GROUP:
        owner = "was registered by hand" if found.spec.group is None else f"belongs to the group {found.spec.group}"
        raise CannotServeError(f"SPU {spu} {owner}: unregister it, or run fewer SPUs")
    return found if isinstance(found, Spu) else None
