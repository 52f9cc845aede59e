"""`tailrace partition move`, `moves` and `elect`: place replicas and leaders by hand, in any cluster."""

import argparse
import re
from collections.abc import Sequence

from tailrace.cli.options.sc_options import UsageError, no_options, say, show_documents
from tailrace.cli.options.spu_options import admin_command, named_partitions
from tailrace.cli.output.tables import table
from tailrace.client.admin_client import AdminClient, Reassignment
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.error_codes import ErrorCode

from .factor_plan import Row
from .replica_moves import move_replicas, start_moves

# moves


def _move_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "partitions",
        metavar="TOPIC[/PARTITION]",
        nargs="*",
        help="Partitions to move; with --cancel, the topics or partitions whose moves to cancel (default: all).",
    )
    parser.add_argument("--to", metavar="ID,ID,...", type=_row, help="SPUs to hold the partitions, the leader first.")
    parser.add_argument("--cancel", action="store_true", help="Cancel moves: the old replicas stay.")
    parser.add_argument("--no-wait", action="store_true", help="Start the moves, and do not wait for the copies.")


def _row(text: str) -> Row:
    if re.fullmatch(r"[0-9]{1,10}(,[0-9]{1,10})*", text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not a list of SPUs, such as 2,3,1")
    row = tuple(int(each) for each in text.split(","))
    if len(set(row)) != len(row):
        raise argparse.ArgumentTypeError(f"{text} names an SPU twice")
    return row


async def _move(admin: AdminClient, arguments: argparse.Namespace) -> None:
    row: Row | None = arguments.to
    if (row is None) != arguments.cancel:
        raise UsageError("give either --to with the SPUs, or --cancel")
    if row is None:
        await _cancel(admin, arguments)
        return
    if not arguments.partitions:
        raise UsageError("name the partitions to move, such as orders/0")
    partitions = await named_partitions(admin.logs, arguments.partitions)
    rows = dict.fromkeys(partitions, row)
    if arguments.no_wait:
        refused = await start_moves(admin, rows)
        done = [each for each in partitions if each not in refused]
    else:
        result = await move_replicas(admin, rows, doing="moving partitions")
        refused, done = result.refused, result.moved
    _show(arguments, done, "moving" if arguments.no_wait else "moved", f" to {list(row)}")
    _report("partition move", refused)


async def _cancel(admin: AdminClient, arguments: argparse.Namespace) -> None:
    moving = await admin.reassignments()
    wanted = await named_partitions(admin.logs, arguments.partitions) if arguments.partitions else sorted(moving)
    cancelled = [each for each in wanted if each in moving]
    refused = await start_moves(admin, dict.fromkeys(cancelled)) if cancelled else {}
    _show(arguments, [each for each in cancelled if each not in refused], "cancelled the move of", "")
    _report("partition move", refused)


def _show(arguments: argparse.Namespace, partitions: Sequence[Partition], did: str, where: str) -> None:
    documents = [{"topic": each.topic, "partition": each.number} for each in partitions]
    lines = [f"{did} {each}{where}" for each in partitions] or ["no partition is moving"]
    show_documents(arguments, documents, lambda: "\n".join(lines))


def _report(command: str, refused: dict[Partition, str]) -> None:
    """Reports what was refused, and raises RefusedError for the last refusal."""
    faults = [f"{partition}: {why}" for partition, why in refused.items()]
    for fault in faults[:-1]:
        say(command, fault)
    if faults:
        raise RefusedError(faults[-1])


async def _list_moves(admin: AdminClient, arguments: argparse.Namespace) -> None:
    moves = sorted((await admin.reassignments()).items())
    documents = [_move_document(*each) for each in moves]
    show_documents(arguments, documents, lambda: move_table(moves) if moves else "no partition is moving")


def _move_document(partition: Partition, move: Reassignment) -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.number,
        "replicas": list(move.replicas),
        "adding": list(move.adding),
        "removing": list(move.removing),
    }


def move_table(moves: Sequence[tuple[Partition, Reassignment]]) -> str:
    """Formats moves, one in each row."""
    return table(
        ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"),
        [
            (partition.topic, partition.number, *map(_ids, (move.replicas, move.adding, move.removing)))
            for partition, move in moves
        ],
    )


def _ids(spus: Sequence[int]) -> str:
    return ", ".join(map(str, spus)) or "-"


# elections


def _elect_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "partitions", metavar="TOPIC[/PARTITION]", nargs="*", help="Partitions that need a leader (default: all)."
    )
    parser.add_argument(
        "--unclean",
        action="store_true",
        help="Let any replica lead a partition that has no leader. Acknowledged records may be lost.",
    )


async def _elect(admin: AdminClient, arguments: argparse.Namespace) -> None:
    if arguments.unclean and not arguments.partitions:
        raise UsageError("--unclean may lose records: name the partitions, such as orders/0")
    partitions = await named_partitions(admin.logs, arguments.partitions) if arguments.partitions else None
    answers = await admin.elect_leaders(partitions, unclean=arguments.unclean)
    elected = sorted(each for each, answer in answers.items() if answer is None)
    refused = {
        each: str(answer)
        for each, answer in sorted(answers.items())
        if answer is not None and answer.code != ErrorCode.ELECTION_NOT_NEEDED
    }
    documents = [{"topic": each.topic, "partition": each.number} for each in elected]
    lines = [f"elected a leader of {each}" for each in elected] or ["no partition needed another leader"]
    show_documents(arguments, documents, lambda: "\n".join(lines if elected or not refused else []))
    _report("partition elect", refused)


COMMANDS = {
    "move": admin_command("partition move", _move_options, _move),
    "moves": admin_command("partition moves", no_options, _list_moves, is_watchable=True),
    "elect": admin_command("partition elect", _elect_options, _elect),
}
