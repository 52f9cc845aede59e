"""`tailrace trigger backfill FILE --archive DIR`: runs the function of a trigger over an archive, on Spark.

Exit status: 0 done, 1 refused or a shard has stopped, 2 wrong usage or a file that cannot be used, 3 unreachable.
"""

import argparse
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.cli.options.sc_options import WRONG_USAGE, UsageError, say
from tailrace.cli.options.server_choice import SC_DEFAULT
from tailrace.cli.output.progress import Progress
from tailrace.pipeline.jobs.job_arguments import add_master, add_output, moment
from tailrace.pipeline.jobs.job_status import EXPECTED, status_of
from tailrace.runtime import logs
from tailrace.runtime.settings_sources import SC_VARIABLE
from tailrace.trigger.config.trigger_settings import SETTINGS
from tailrace.trigger.functions.function_source import FunctionLoadError
from tailrace.trigger.replica.replica_setup import ReplicaServers

from .run_options import servers_of
from .trigger_options import add_function, add_settings, given_trigger

if TYPE_CHECKING:
    from tailrace.pipeline.engine.backfill_run import BackfillPlan, BackfillSettings
    from tailrace.pipeline.engine.engine_results import EngineResult

_NAME = "trigger backfill"
_WITHOUT_EFFECT = (
    "replicas",
    "min_replicas",
    "seek_to",
    "read_batch_size",
    "polling_interval",
    "session_timeout",
    "heartbeat_interval",
    "batch_seconds",
    "stop_timeout",
    "retry_mode",
    "retry_max_age",
)
"""Settings of a trigger that a backfill has no use for: see `tailrace.pipeline.engine.engine_settings`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_function(parser)
    parser.add_argument("--archive", metavar="DIRECTORY", required=True, help="The archive of the topic.")
    parser.add_argument(
        "--from",
        dest="begin_ms",
        metavar="TIME",
        type=moment,
        help="Handle records from this time on, such as 2026-01-01 or 2026-01-31T12:00:00Z (default: all).",
    )
    parser.add_argument("--until", dest="end_ms", metavar="TIME", type=moment, help="Handle records before this time.")
    parser.add_argument(
        "--output-archive",
        metavar="DIRECTORY",
        help="Store what the function emits, and dead letters, in this archive, exactly once, and not in topics.",
    )
    parser.add_argument(
        "--progress",
        metavar="DIRECTORY",
        help="Output into topics at least once: where the run notes which chunks are done.",
    )
    parser.add_argument(
        "--sc",
        metavar="HOST:PORT[,HOST:PORT]",
        help=f"Public addresses of the SC and its standbys, for output to topics (default: ${SC_VARIABLE}, or "
        f"{SC_DEFAULT}).",
    )
    add_master(parser)
    add_output(parser)
    parser.add_argument(
        "--log-level", choices=sorted(logs.LEVELS), default="info", help="Lowest level to log (default: info)."
    )
    parser.add_argument(
        "--log-format", choices=logs.FORMATS, help="Format of the log (default: text on a terminal, otherwise json)."
    )
    add_settings(parser, only=[name for name in SETTINGS if name not in _WITHOUT_EFFECT])


def run(arguments: argparse.Namespace) -> int:
    """Runs the backfill, shows what was done, and returns the exit status."""
    logs.configure(arguments.log_level, json=logs.is_json(arguments.log_format))
    try:
        return _run(arguments)
    except (UsageError, FunctionLoadError) as error:
        say(_NAME, str(error))
        return WRONG_USAGE
    except EXPECTED as error:
        say(_NAME, str(error))
        return status_of(error)


def _run(arguments: argparse.Namespace) -> int:
    from tailrace.pipeline.engine.backfill_planning import Window
    from tailrace.pipeline.engine.backfill_run import BackfillSettings, backfill_result, plan_backfill

    given = given_trigger(arguments)
    for warning in given.warnings:
        say(_NAME, warning)
    alone = replace(given.config, replicas=1, min_replicas=None)
    if arguments.output_archive is not None and arguments.sc is not None:
        raise UsageError("--sc has no effect with --output-archive: nothing goes to topics")
    settings = BackfillSettings(
        config=given.config,
        source=given.source,
        archive=arguments.archive,
        window=Window(arguments.begin_ms, arguments.end_ms),
        servers=ReplicaServers()
        if arguments.output_archive is not None
        else servers_of(arguments.sc, alone, os.environ),
        output_archive=arguments.output_archive,
        progress=arguments.progress,
        log_level=arguments.log_level,
        log_json=logs.is_json(arguments.log_format),
    )
    plan = plan_backfill(settings)
    result = _handle(settings, plan, arguments.master) if plan.tasks else backfill_result(settings, plan, [])
    print(result.json() if arguments.output == "json" else result.text())
    return result.status


def _handle(settings: "BackfillSettings", plan: "BackfillPlan", master: str | None) -> "EngineResult":
    from tailrace.pipeline.engine.backfill_run import run_backfill
    from tailrace.pipeline.jobs.spark_session import close_session, open_session

    progress = Progress(0, wanted=False, doing="handling partitions", amount=str)
    spark = open_session(_NAME, master)
    try:
        return run_backfill(spark, settings, plan, progress.move_to)
    finally:
        progress.clear()
        close_session(spark)
