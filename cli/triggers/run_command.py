"""`tailrace trigger run FILE`: runs one replica of a trigger in the foreground, or the trigger as a job on Spark.

The replica prints one line on standard output when it is ready. SIGTERM, SIGINT or SIGHUP stop it in order, and a
second signal at once. Exit status: 0 done, 1 refused, 2 wrong usage or a file that cannot be used, 3 unreachable.
"""

import argparse
import os
from collections.abc import Mapping
from functools import partial

from tailrace.cli.options.client_config import client_config_option
from tailrace.cli.options.sc_options import DONE, REFUSED, UNREACHABLE, WRONG_USAGE, UsageError, say
from tailrace.cli.options.server_choice import SC_DEFAULT
from tailrace.client.client_network import client_seams
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.runtime import logs
from tailrace.runtime.network import CannotListenError
from tailrace.runtime.process import allow_many_files, serve_until_stopped
from tailrace.runtime.settings import SettingsError
from tailrace.runtime.settings_sources import SC_VARIABLE
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.functions.deployed_function import DeployedFunction
from tailrace.trigger.pool.worker_pool import WorkerPoolError

from .replica_process import ReplicaSettings, serve_replica
from .run_options import SPARK, add_engine, check_without_engine, member_id_of, metrics_address, servers_of
from .trigger_options import add_function, add_settings, flag_layer, given_trigger

_NAME = "trigger run"
_REPLICA_DEFAULT = "replica1"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_function(parser, is_optional=True)
    parser.add_argument(
        "--replica",
        metavar="NAME",
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
        "--log-format", choices=logs.FORMATS, help="Format of the log (default: text on a terminal, otherwise json)."
    )
    client_config_option(parser)
    add_engine(parser)
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the replica until it is stopped, and returns the exit status."""
    if arguments.engine == SPARK:
        from .spark_run import run_on_spark

        return run_on_spark(arguments, os.environ)
    try:
        check_without_engine(arguments)
        settings = _settings(arguments, os.environ)
    except (UsageError, SettingsError) as error:
        say(_NAME, str(error))
        return WRONG_USAGE
    logs.configure(settings.log_level, json=settings.log_json)
    allow_many_files()
    try:
        seams = client_seams(arguments.client_config)
    except SettingsError as error:
        say(_NAME, str(error))
        return WRONG_USAGE
    expected = (RefusedError, UnreachableError, UsageError, TriggerConfigError, WorkerPoolError, CannotListenError)
    refused = serve_until_stopped(partial(serve_replica, settings, seams), expected)
    if refused is None:
        return DONE
    say(_NAME, str(refused))
    if isinstance(refused, UnreachableError):
        return UNREACHABLE
    return WRONG_USAGE if isinstance(refused, UsageError | TriggerConfigError) else REFUSED


def _settings(arguments: argparse.Namespace, environment: Mapping[str, str]) -> ReplicaSettings:
    """Reads the command line. Raises UsageError and SettingsError."""
    trigger: DeployedFunction | None = None
    member_id = member_id_of(arguments.replica, _REPLICA_DEFAULT)
    if arguments.deployed is None:
        if arguments.file is None:
            raise UsageError("give the file of the function, or name a deployed trigger with --deployed")
        given = given_trigger(arguments)
        for warning in given.warnings:
            say(_NAME, warning)
        trigger = DeployedFunction(given.config, given.source, 0)
    else:
        _check_only_deployed(arguments)
    return ReplicaSettings(
        servers=servers_of(arguments.sc, None if trigger is None else trigger.config, environment),
        metrics=metrics_address(arguments.metrics),
        member_id=member_id,
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
