"""`tailrace trigger logs`: prints what the replicas of a deployed trigger have printed."""

import argparse
import sys
from collections.abc import Sequence

import trio

from tailrace.cli.options.sc_options import Command, UsageError
from tailrace.cli.output.printing import for_encoding, plain
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.controller.objects.objects import replica_name
from tailrace.controller.triggers.bounded_log import LAST
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.process import run_until_stopped
from tailrace.trigger.functions.deployed_function import KIND

from .trigger_facts import replica_documents

PART_BYTES_MAX = 256 * 1024
FOLLOW_SECONDS = 0.5
LINES = 50


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="Name of the trigger.")
    parser.add_argument("--replica", metavar="REPLICA", help="Only this replica, such as replica1.")
    parser.add_argument(
        "--lines", metavar="N", type=int, default=LINES, help=f"The last lines of each replica (default: {LINES})."
    )
    parser.add_argument("--follow", "-f", action="store_true", help="Also print what comes later, until Ctrl-C.")


async def _logs(client: ScClient, arguments: argparse.Namespace) -> None:
    if arguments.output != "table":
        raise UsageError(f"--output {arguments.output} has no effect on lines that a program has printed")
    if arguments.lines < 0:
        raise UsageError(f"--lines: {arguments.lines} is less than 0")
    (document,) = await client.list_objects(KIND, [arguments.name])
    names = [each["name"] for each in replica_documents(document)] or [replica_name(0)]
    replicas = names if arguments.replica is None else [arguments.replica]
    positions: dict[str, int] = {}
    missing: RefusedError | None = None
    for replica in replicas:
        try:
            text, positions[replica] = await client.read_trigger_log(arguments.name, replica, LAST, PART_BYTES_MAX)
        except RefusedError as error:
            if error.code != ErrorCode.RESOURCE_NOT_FOUND:
                raise
            missing = error
            continue
        lines = text.splitlines()
        _print(lines[max(0, len(lines) - arguments.lines) :], replica, replicas)
    if not positions and missing is not None:
        raise missing
    if arguments.follow:
        await run_until_stopped(lambda: _follow(client, arguments.name, positions, replicas))


async def _follow(client: ScClient, name: str, positions: dict[str, int], replicas: Sequence[str]) -> None:
    while True:
        await trio.sleep(FOLLOW_SECONDS)
        for replica, position in positions.items():
            text, positions[replica] = await client.read_trigger_log(name, replica, position, PART_BYTES_MAX)
            _print(text.splitlines(), replica, replicas)


def _print(lines: Sequence[str], replica: str, replicas: Sequence[str]) -> None:
    """Prints lines, each with the name of its replica if there are several."""
    before = f"{replica}: " if len(replicas) > 1 else ""
    for line in lines:
        print(for_encoding(f"{before}{plain(line)}", sys.stdout.encoding))
    sys.stdout.flush()


COMMANDS = {"logs": Command("trigger logs", _options, _logs)}
