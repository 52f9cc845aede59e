"""`tailrace trigger run FILE`: runs one replica of a trigger in the foreground.

The replica prints one line on standard output when it is ready. SIGTERM, SIGINT or SIGHUP stop it in order, and a
second signal at once. Exit status: 0 done, 1 refused, 2 wrong usage or a file that cannot be used, 3 unreachable.
"""

import argparse
import gc
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import closing, suppress
from functools import partial

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.cli.options.sc_options import DONE, REFUSED, UNREACHABLE, WRONG_USAGE, UsageError, say
from tailrace.cli.options.server_choice import SC_DEFAULT
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.cluster.stream_state.replica_report import ReplicaState
from tailrace.cluster.stream_state.stream_state import MEMBER_ID_CHARACTERS_MAX
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime import logs
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.logs import FilteringBoundLogger, get_logger
from tailrace.runtime.network import Address, CannotListenError
from tailrace.runtime.process import allow_many_files, end_of_input, running_ms, stop_signals
from tailrace.runtime.seams import Seams, real_seams
from tailrace.runtime.settings import SettingsError, parse_address
from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE, SC_VARIABLE
from tailrace.server.health import Readiness
from tailrace.server.metric_text import render
from tailrace.server.metrics_server import MetricsServer
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.functions.deployed_function import KIND, DeployedFunction, read_deployed
from tailrace.trigger.pool.worker_pool import WorkerPool, WorkerPoolError
from tailrace.trigger.replica.replica_metrics import replica_families
from tailrace.trigger.replica.replica_setup import ReplicaServers, check_topic, replica_of
from tailrace.trigger.replica.trigger_replica import Replica, ReplicaName

from .trigger_options import add_function, add_settings, flag_layer, given_trigger

_NAME = "trigger run"
_REPLICA_DEFAULT = "replica1"
_METRICS_OFF = "off"
_LOG_FORMATS = ("text", "json")
_POOL_STOP_SECONDS_MAX = 2.0
"""How long idle workers may take to end after the replica has left."""
_PARENTLESS_SECONDS_MAX = 30.0
"""How long an orderly stop may take after the parent process has ended."""


class _Run(Struct, frozen=True):
    """What to run, as the command line says."""

    servers: ReplicaServers
    metrics: Address | None
    member_id: str
    log_level: str
    log_json: bool
    until_input_ends: bool
    trigger: DeployedFunction | None
    """The trigger that the command line describes; None for a deployed one."""
    deployed: str


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_function(parser, is_optional=True)
    parser.add_argument(
        "--replica",
        metavar="NAME",
        default=_REPLICA_DEFAULT,
        help=f"Name of the replica in its group; each replica needs its own (default: {_REPLICA_DEFAULT}).",
    )
    parser.add_argument("--deployed", metavar="NAME", help="Run a replica of this deployed trigger instead of a file.")
    parser.add_argument(
        "--sc",
        metavar="HOST:PORT[,HOST:PORT]",
        help=f"Public addresses of the SC and its standbys (default: ${SC_VARIABLE}, or {SC_DEFAULT}). A replica with "
        "only --bootstrap works with any Kafka brokers, and handles all shards alone.",
    )
    parser.add_argument(
        "--metrics", metavar="HOST:PORT", help="Address to listen on for Prometheus, or off (default: off)."
    )
    parser.add_argument(
        "--until-input-ends",
        action="store_true",
        help="Stop when standard input ends, so that the replica does not outlive its parent process.",
    )
    parser.add_argument(
        "--log-level", choices=sorted(logs.LEVELS), default="info", help="Lowest level to log (default: info)."
    )
    parser.add_argument(
        "--log-format", choices=_LOG_FORMATS, help="Format of the log (default: text on a terminal, otherwise json)."
    )
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the replica until it is stopped, and returns the exit status."""
    try:
        asked = _asked(arguments, os.environ)
    except (UsageError, SettingsError) as error:
        say(_NAME, str(error))
        return WRONG_USAGE
    logs.configure(asked.log_level, json=asked.log_json)
    allow_many_files()
    refused: BaseException | None = None
    interrupted = False
    expected = (RefusedError, UnreachableError, UsageError, TriggerConfigError, WorkerPoolError, CannotListenError)
    try:
        trio.run(_serve, asked, real_seams(send_buffer_bytes=0, waits_awake=False))
    except* expected as errors:
        refused = first_error(errors)
    except* KeyboardInterrupt:
        interrupted = True  # the signal came before the signal handlers: there is nothing to stop yet
    if interrupted:
        raise KeyboardInterrupt
    if refused is None:
        return DONE
    say(_NAME, str(refused))
    if isinstance(refused, UnreachableError):
        return UNREACHABLE
    return WRONG_USAGE if isinstance(refused, UsageError | TriggerConfigError) else REFUSED


# the command line


def _asked(arguments: argparse.Namespace, environment: Mapping[str, str]) -> _Run:
    """Reads the command line. Raises UsageError and SettingsError."""
    trigger: DeployedFunction | None = None
    if not 0 < len(arguments.replica) <= MEMBER_ID_CHARACTERS_MAX:
        raise UsageError(f"--replica: a replica needs a name of 1 to {MEMBER_ID_CHARACTERS_MAX} characters")
    if arguments.deployed is None:
        if arguments.file is None:
            raise UsageError("give the file of the function, or name a deployed trigger with --deployed")
        given = given_trigger(arguments)
        for warning in given.warnings:
            say(_NAME, warning)
        trigger = DeployedFunction(given.config, given.source, 0)
    else:
        _check_only_deployed(arguments)
    metrics = arguments.metrics
    return _Run(
        servers=_servers(arguments.sc, None if trigger is None else trigger.config, environment),
        metrics=None if metrics in (None, _METRICS_OFF) else parse_address(metrics, "--metrics"),
        member_id=arguments.replica,
        log_level=arguments.log_level,
        log_json=logs.is_json(arguments.log_format),
        until_input_ends=arguments.until_input_ends,
        trigger=trigger,
        deployed=arguments.deployed or "",
    )


def _check_only_deployed(arguments: argparse.Namespace) -> None:
    if arguments.file is not None:
        raise UsageError("--deployed runs the function that was deployed: give no file")
    for flag, value in (("--config", arguments.config), ("--trigger", arguments.trigger)):
        if value is not None:
            raise UsageError(f"{flag} has no effect with --deployed, which uses the configuration that was deployed")
    settings = flag_layer(arguments)
    if settings:
        first = next(iter(settings.values())).place
        raise UsageError(f"{first} has no effect with --deployed: change the deployed trigger instead")


def _servers(sc: str | None, config: TriggerConfig | None, environment: Mapping[str, str]) -> ReplicaServers:
    """Chooses the servers: the SC that is named, or else brokers that are named, or else the SC of `tailrace up`."""
    brokers = [] if config is None else _brokers(config)
    origin = "--sc" if sc is not None else SC_VARIABLE
    sc = sc or environment.get(SC_VARIABLE) or None
    named = environment.get(BOOTSTRAP_VARIABLE)
    if config is not None and not brokers and sc is None and named:
        brokers = [parse_address(each.strip(), BOOTSTRAP_VARIABLE, port_min=1) for each in named.split(",")]
    if brokers and sc is None:
        assert config is not None, "only a configuration or a variable for it names brokers"
        if config.replicas > 1:
            raise UsageError(
                f"{config.replicas} replicas need a Streaming Controller, which says which replica handles which "
                "shard: name it with --sc, or set replicas to 1"
            )
        return ReplicaServers(brokers=brokers)
    addresses = [parse_address(each.strip(), origin, port_min=1) for each in (sc or SC_DEFAULT).split(",")]
    return ReplicaServers(addresses, brokers)


def _brokers(config: TriggerConfig) -> list[Address]:
    return [parse_address(each, "--bootstrap", port_min=1) for each in config.brokers]


# the replica


class _Stops:
    """The replica that the first signal stops. Until there is one, the signal ends the start."""

    def __init__(self) -> None:
        self.replica: Replica | None = None
        self.is_asked = False

    def stop(self) -> bool:
        """Begins an orderly stop; returns whether there is something to stop, and it was not asked before."""
        is_first = not self.is_asked and self.replica is not None
        self.is_asked = True
        if self.replica is not None:
            self.replica.stop()
        return is_first


async def _serve(asked: _Run, seams: Seams) -> None:
    async with stop_signals() as signals, trio.open_nursery() as nursery:
        stops = _Stops()
        nursery.start_soon(_stop_when_asked, signals, stops, nursery.cancel_scope)
        if asked.until_input_ends:
            nursery.start_soon(_stop_with_parent, stops, nursery.cancel_scope)
        trigger = asked.trigger
        if trigger is None:
            trigger = await _deployed(asked, seams)
            asked = replace(asked, servers=replace(asked.servers, brokers=_brokers(trigger.config)))
        logger = get_logger().bind(trigger=trigger.config.name, replica=asked.member_id)
        shards = await check_topic(asked.servers, seams.network, trigger.config, logger)
        await _run_replica(asked, trigger, shards, seams, stops, logger)
        nursery.cancel_scope.cancel()


async def _deployed(asked: _Run, seams: Seams) -> DeployedFunction:
    """Asks the SC for a deployed trigger. Raises RefusedError, UnreachableError and TriggerConfigError."""
    with closing(ScClient(seams.network, asked.servers.sc)) as sc:
        found = await sc.list_objects(KIND, [asked.deployed])
    if not found:
        raise RefusedError(f"there is no trigger {asked.deployed}", ErrorCode.RESOURCE_NOT_FOUND)
    return read_deployed(found[0])


async def _run_replica(
    asked: _Run,
    trigger: DeployedFunction,
    shards: int,
    seams: Seams,
    stops: _Stops,
    logger: FilteringBoundLogger,
) -> None:
    config = trigger.config
    pool = WorkerPool(
        trigger.source,
        config,
        config.max_workers,
        logger,
        seams.chance,
        log_level=asked.log_level,
        log_json=asked.log_json,
    )
    name = ReplicaName(config.name, asked.member_id, os.uname().nodename, os.getpid(), trigger.revision)
    async with trio.open_nursery() as nursery:
        await nursery.start(pool.run)
        async with replica_of(name, config, pool, asked.servers, seams, logger) as replica:
            if asked.metrics is not None:
                await nursery.start(_serve_metrics, replica, asked.metrics, seams, logger)
            stops.replica = replica
            if stops.is_asked:
                replica.stop()
            _announce(asked, config, shards)
            await replica.run()
        await pool.stop(_POOL_STOP_SECONDS_MAX)
        nursery.cancel_scope.cancel()


def _announce(asked: _Run, config: TriggerConfig, shards: int) -> None:
    """Prints the line that says that the replica is ready. If standard output is closed, the line is lost."""
    gc.collect()
    gc.freeze()  # the objects of the start stay alive: the collector need not look at them again
    alone = "" if asked.servers.sc else ", alone because no SC was named,"
    with suppress(OSError):
        print(
            f"ready {asked.member_id} of trigger {config.name} handles {config.topic} ({shards} shards) in the group "
            f"{config.group}{alone} in {running_ms()} ms",
            flush=True,
        )


async def _serve_metrics(
    replica: Replica,
    address: Address,
    seams: Seams,
    logger: FilteringBoundLogger,
    task_status: trio.TaskStatus[None],
) -> None:
    async def scrape() -> bytes:
        await trio.lowlevel.checkpoint()
        return render(partial(replica_families, replica.name.trigger, replica.metrics, replica.gauges()))

    async def readiness() -> Readiness:
        await trio.lowlevel.checkpoint()
        state = replica.state
        return Readiness(state is not ReplicaState.STOPPING, state.value)

    listener = await seams.network.listen(address)
    with closing(listener):
        logger.info("metrics_served", address=str(listener.address))
        task_status.started()
        await MetricsServer(scrape, readiness, logger).serve(listener)


async def _stop_when_asked(signals: AsyncIterator[int], stops: _Stops, scope: trio.CancelScope) -> None:
    """Stops the replica in order at the first signal, and at once at the second."""
    await anext(signals)
    if stops.stop():
        await anext(signals)
    scope.cancel()


async def _stop_with_parent(stops: _Stops, scope: trio.CancelScope) -> None:
    """Stops the replica when the parent process has ended, within a time limit: no other process would kill it."""
    await end_of_input()
    stops.stop()
    await trio.sleep(_PARENTLESS_SECONDS_MAX)
    scope.cancel()
