"""`tailrace pipeline lag`: shows how far streaming queries of Spark are behind, and commits that to a group.

The command reads the checkpoints of the queries. It needs no PySpark and no Java, and the queries need no change.
Exit status: 0 done, 1 refused, 2 wrong usage or a directory that is no checkpoint, 3 unreachable.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from math import inf

import trio
from msgspec import Struct

from tailrace.cli.options.client_config import client_config_option
from tailrace.cli.options.sc_options import DONE, REFUSED, UNREACHABLE, WRONG_USAGE, UsageError, say
from tailrace.cli.output.printing import duration_text, for_encoding
from tailrace.cli.output.tables import table
from tailrace.client.client_network import client_seams
from tailrace.client.sc_client import Document
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.jobs.broker_addresses import parse_brokers
from tailrace.pipeline.jobs.job_arguments import add_bootstrap, add_output
from tailrace.pipeline.lag.attachment import serving_metrics
from tailrace.pipeline.lag.checkpoint_queries import CheckpointQueries
from tailrace.pipeline.lag.group_positions import PLACEHOLDER, GroupNameError, GroupPositions
from tailrace.pipeline.lag.lag_keeper import LagKeeper
from tailrace.pipeline.lag.lag_rows import LagRow
from tailrace.pipeline.lag.query_progress import ProgressError
from tailrace.runtime import logs
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.files import Files
from tailrace.runtime.logs import get_logger
from tailrace.runtime.network import Address, Network
from tailrace.runtime.process import Stop, run_stoppable
from tailrace.runtime.settings import SettingsError, parse_address
from tailrace.runtime.wall_clock import WallClock

_NAME = "pipeline lag"


class _Asked(Struct, frozen=True):
    """What the command line says."""

    checkpoints: Sequence[str]
    group: str | None
    brokers: list[Address]
    metrics: Address | None
    is_followed: bool
    output: str


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "--checkpoint",
        metavar="DIRECTORY",
        action="append",
        required=True,
        help="The checkpointLocation of a query; may be repeated.",
    )
    parser.add_argument(
        "--group",
        metavar="GROUP",
        help="Commit the positions to this consumer group (default: commit nothing). In its name, "
        f"{PLACEHOLDER} stands for the name of the directory.",
    )
    add_bootstrap(parser)
    client_config_option(parser)
    parser.add_argument("--follow", action="store_true", help="Go on until the command is stopped.")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="With --follow: address to listen on for Prometheus.")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    try:
        seams = client_seams(arguments.client_config)
    except SettingsError as error:
        say(_NAME, str(error))
        return WRONG_USAGE
    try:
        return trio.run(partial(execute, arguments, seams.network, seams.files, seams.wall_clock))
    except BaseExceptionGroup as group:
        raise first_error(group) from None


async def execute(arguments: argparse.Namespace, network: Network, files: Files, wall_clock: WallClock) -> int:
    """Runs the command on these seams and returns its exit status."""
    try:
        asked = _asked(arguments)
        queries = CheckpointQueries(files, asked.checkpoints)
        for each in asked.checkpoints:
            queries.progress_of(each)  # a wrong directory ends the command
        keeper = LagKeeper(
            queries.look,
            GroupPositions(asked.group),
            SpuClient(network, asked.brokers, BOOTSTRAP),
            wall_clock,
            get_logger(),
        )
        if asked.is_followed:
            await _follow(asked, keeper, network)
        else:
            await keeper.check_once()
    except (UsageError, SettingsError, GroupNameError, ProgressError) as error:
        return _fail(error, WRONG_USAGE)
    except RefusedError as error:
        return _fail(error, REFUSED)
    except UnreachableError as error:
        return _fail(error, UNREACHABLE)
    _show(keeper.rows, asked)
    return DONE


def _asked(arguments: argparse.Namespace) -> _Asked:
    """Reads the command line. Raises UsageError and SettingsError."""
    if arguments.metrics is not None and not arguments.follow:
        raise UsageError("--metrics has no effect without --follow")
    return _Asked(
        checkpoints=list(dict.fromkeys(arguments.checkpoint)),
        group=arguments.group,
        brokers=parse_brokers(arguments.bootstrap),
        metrics=None if arguments.metrics is None else parse_address(arguments.metrics, "--metrics"),
        is_followed=arguments.follow,
        output=arguments.output,
    )


async def _follow(asked: _Asked, keeper: LagKeeper, network: Network) -> None:
    """Keeps group and metrics up to date until a signal asks for a stop."""
    logs.configure("info", json=logs.is_json(None))

    async def work(stop: Stop) -> None:
        asked_to_stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeper.run, asked_to_stop)
            with stop.ends_waiting():
                async with serving_metrics(keeper, network, asked.metrics, get_logger()):
                    print(f"ready follows {os.pathsep.join(asked.checkpoints)}", flush=True)
                    await trio.sleep(inf)
            asked_to_stop.set()

    await run_stoppable(work)


def _fail(error: Exception, status: int) -> int:
    say(_NAME, str(error))
    return status


def _show(rows: Sequence[LagRow], asked: _Asked) -> None:
    if asked.output == "json":
        print(json.dumps([_document(each) for each in rows], indent=2))
        return
    if not rows:
        print("No batch of these queries is done yet.")
        return
    text = table(
        ("QUERY", "TOPIC", "PARTITION", "POSITION", "LOG END", "LAG", "BEHIND"),
        [
            (
                each.query,
                each.partition.topic,
                each.partition.number,
                each.position,
                each.end,
                each.lag_records,
                None if each.lag_seconds is None else duration_text(each.lag_seconds),
            )
            for each in rows
        ],
    )
    print(for_encoding(text, sys.stdout.encoding))


def _document(row: LagRow) -> Document:
    return {
        "query": row.query,
        "group": row.group or None,
        "topic": row.partition.topic,
        "partition": row.partition.number,
        "position": row.position,
        "log_end": row.end,
        "lag": row.lag_records,
        "lag_seconds": row.lag_seconds,
    }
