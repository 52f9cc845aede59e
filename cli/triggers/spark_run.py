"""`tailrace trigger run --engine spark`: runs the function of a trigger as a streaming query, until it is stopped.

The first signal lets the running micro-batch end, and the second one ends the process at once.
"""

import argparse
import os
from collections.abc import Mapping
from contextlib import closing
from functools import partial

import trio
from msgspec.structs import replace

from tailrace.cli.options.sc_options import REFUSED, WRONG_USAGE, UsageError, say
from tailrace.cli.output.progress import Progress
from tailrace.pipeline.engine.engine_results import EngineResult
from tailrace.pipeline.engine.engine_run import MEMBER_ID, EngineRun, EngineRunSettings
from tailrace.pipeline.engine.engine_settings import EngineSettingsError
from tailrace.pipeline.engine.kafka_connector import connector_settings
from tailrace.pipeline.jobs.job_status import EXPECTED, status_of
from tailrace.pipeline.jobs.spark_session import check_can_run, close_session, open_session
from tailrace.runtime import logs
from tailrace.runtime.embedded.side_loop import BlockingCalls
from tailrace.runtime.process import ServerStop, print_ready, serve_until_stopped, stop_with_parent
from tailrace.runtime.settings import SettingsError
from tailrace.trigger.functions.function_source import FunctionLoadError

from .run_options import member_id_of, metrics_address, servers_of
from .trigger_options import given_trigger

_NAME = "trigger run"
_WRONG = (UsageError, SettingsError, EngineSettingsError, FunctionLoadError)


def run_on_spark(arguments: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Runs the query until it ends or is stopped, shows what was done, and returns the exit status."""
    try:
        settings = _settings(arguments, environment)
        run = EngineRun(settings, partial(_show_ready, settings))
    except _WRONG as error:
        say(_NAME, str(error))
        return WRONG_USAGE
    logs.configure(settings.log_level, json=settings.log_json)
    found: list[EngineResult] = []
    failure = serve_until_stopped(partial(_serve, run, arguments, found), EXPECTED)
    if failure is not None:
        say(_NAME, str(failure))
        return status_of(failure)
    if not found:
        return REFUSED  # a second signal has ended the run
    (result,) = found
    print(result.json() if arguments.output == "json" else result.text())
    return result.status


async def _serve(run: EngineRun, arguments: argparse.Namespace, found: list[EngineResult], stop: ServerStop) -> None:
    async with trio.open_nursery() as nursery:
        if arguments.until_input_ends:
            nursery.start_soon(stop_with_parent, stop, nursery.cancel_scope)
        stop.server = run
        if not stop.is_asked:
            found.append(await BlockingCalls().run(partial(_run, run, arguments)))
        nursery.cancel_scope.cancel()


def _run(run: EngineRun, arguments: argparse.Namespace) -> EngineResult:
    """Joins the group, opens a session, and runs the query in it. Blocks."""
    check_can_run(arguments.master)
    from pyspark import __version__

    progress = Progress(0, wanted=False, doing="handling events", amount=str)
    with closing(run):
        run.own()  # before a session is started, which takes some seconds
        spark = open_session(_NAME, arguments.master, connector_settings(__version__, arguments.packages))
        try:
            return run.run(spark, progress.move_to if arguments.available_now else None)
        finally:
            progress.clear()
            close_session(spark)


def _settings(arguments: argparse.Namespace, environment: Mapping[str, str]) -> EngineRunSettings:
    """Reads the command line. Raises UsageError and SettingsError."""
    if arguments.deployed is not None:
        raise UsageError("--deployed runs a replica: give --engine spark the file of the function")
    if arguments.file is None:
        raise UsageError("give the file of the function")
    if arguments.checkpoint is None:
        raise UsageError("--engine spark needs --checkpoint DIR, where Spark keeps its positions between two runs")
    given = given_trigger(arguments)
    for warning in given.warnings:
        say(_NAME, warning)
    config = replace(given.config, replicas=1, min_replicas=None)
    return EngineRunSettings(
        config=given.config,
        source=given.source,
        servers=servers_of(arguments.sc, config, environment),
        checkpoint=os.path.abspath(arguments.checkpoint),
        available_now=arguments.available_now,
        member_id=member_id_of(arguments.replica, MEMBER_ID),
        metrics=metrics_address(arguments.metrics),
        log_level=arguments.log_level,
        log_json=logs.is_json(arguments.log_format),
    )


def _show_ready(settings: EngineRunSettings, shards: int) -> None:
    config = settings.config
    alone = "" if settings.servers.sc else ", alone because no SC was named,"
    print_ready(
        f"{settings.member_id} of trigger {config.name} handles {config.topic} ({shards} shards) in the group "
        f"{config.group}{alone}"
    )
