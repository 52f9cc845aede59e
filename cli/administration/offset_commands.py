"""`tailrace topic offsets` and `tailrace topic truncate`: where logs begin and end, and the deletion of old records."""

import argparse
import re
from collections.abc import Mapping

from msgspec import Struct

from tailrace.cli.options.sc_options import AskBrokers, UsageError, show_documents
from tailrace.cli.options.spu_options import named_partitions, spu_command
from tailrace.cli.output.tables import table
from tailrace.cli.output.times import duration_ms, moment
from tailrace.client.admin_client import AdminClient
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import answered
from tailrace.client.spu_client import SpuClient
from tailrace.runtime.wall_clock import SystemClock, WallClock, moment_ms

END = "end"
_CLOCK = SystemClock()


class Cut(Struct, frozen=True):
    """What truncation does to one partition."""

    partition: Partition
    log: LogEnds
    before: int
    """The first offset to keep."""

    @property
    def offsets(self) -> int:
        """How many offsets are deleted; compacted ones have no record."""
        return self.before - self.log.start


def planned(partition: Partition, log: LogEnds, wanted: int) -> Cut:
    """Returns the cut at a wanted offset; -1 (there is no record that new) and later offsets mean the end."""
    before = log.end if wanted < 0 else min(max(wanted, log.start), log.end)
    return Cut(partition, log, before)


def _offsets_options(parser: argparse.ArgumentParser) -> None:
    _partition_options(parser)
    parser.add_argument(
        "--time",
        metavar="TIME",
        type=moment,
        help="Show the offset of the first record since TIME too, such as 2026-01-31T12:00:00Z.",
    )


async def _offsets(spus: SpuClient, arguments: argparse.Namespace) -> None:
    logs = LogClient(spus)
    partitions = sorted(await named_partitions(logs, arguments.topics))
    ends = answered(await logs.ends(partitions))
    found: Mapping[Partition, int] = {}
    if arguments.time is not None:
        found = answered(await logs.offsets_at(partitions, arguments.time))
    documents, rows = [], []
    for partition in partitions:
        log = ends[partition]
        at = found.get(partition, -1)
        document = {"topic": partition.topic, "partition": partition.number, "start": log.start, "end": log.end}
        documents.append(document if arguments.time is None else {**document, "at": None if at < 0 else at})
        rows.append((*document.values(), None if at < 0 else at))
    titles = ("TOPIC", "PARTITION", "START", "END", "AT TIME")
    count = len(titles) if arguments.time is not None else len(titles) - 1
    show_documents(arguments, documents, lambda: table(titles[:count], [row[:count] for row in rows]))


def _truncate_options(parser: argparse.ArgumentParser) -> None:
    _partition_options(parser)
    parser.add_argument(
        "--before",
        metavar="WHERE",
        required=True,
        help="Delete the records before this offset, this time (2026-01-31T12:00:00Z), this age (90m, 2d), or the end.",
    )
    parser.add_argument("--execute", action="store_true", help="Delete the records; otherwise only show what would go.")


def truncating(wall_clock: WallClock) -> AskBrokers:
    """Makes the function that deletes records, or shows what it would delete."""

    async def truncate(spus: SpuClient, arguments: argparse.Namespace) -> None:
        logs = LogClient(spus)
        where = _where(arguments.before, wall_clock.now_ms())
        partitions = sorted(await named_partitions(logs, arguments.topics))
        ends = answered(await logs.ends(partitions))
        wanted: Mapping[Partition, int]
        if where.since_ms is None:
            wanted = dict.fromkeys(partitions, where.offset)
        else:
            wanted = answered(await logs.offsets_at(partitions, where.since_ms))
        cuts = [planned(each, ends[each], wanted[each]) for each in partitions]
        if arguments.execute:
            before = {cut.partition: cut.before for cut in cuts if cut.offsets > 0}
            answered(await AdminClient(spus).delete_records(before) if before else {})
        note = "The records were deleted." if arguments.execute else "Nothing was deleted: add --execute to do it."
        rows = [
            (cut.partition.topic, cut.partition.number, cut.log.start, cut.before, cut.log.end, cut.offsets)
            for cut in cuts
        ]
        titles = ("TOPIC", "PARTITION", "START", "NEW START", "END", "DELETES")
        names = ("topic", "partition", "start", "newStart", "end", "deletes")
        documents = [dict(zip(names, row, strict=True)) for row in rows]
        show_documents(
            arguments,
            {"executed": arguments.execute, "partitions": documents},
            lambda: f"{table(titles, rows)}\n{note}",
        )

    return truncate


class _Where(Struct, frozen=True):
    offset: int = -1
    since_ms: int | None = None


def _where(text: str, now_ms: int) -> _Where:
    if text == END:
        return _Where()
    if re.fullmatch(r"[0-9]{1,18}", text) is not None:
        return _Where(int(text))
    if (age_ms := duration_ms(text)) is not None:
        return _Where(since_ms=max(0, now_ms - age_ms))
    if (since_ms := moment_ms(text)) is not None:
        return _Where(since_ms=max(0, since_ms))
    raise UsageError(f"--before: {text!r:.100} is no offset, no time, no age such as 90m, and not `{END}`")


def _partition_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topics", metavar="TOPIC[:P,P]", nargs="+", help="Topics, or some of their partitions: orders/0 or orders:0,2."
    )


COMMANDS = {
    "offsets": spu_command("topic offsets", _offsets_options, _offsets, is_watchable=True),
    "truncate": spu_command("topic truncate", _truncate_options, truncating(_CLOCK)),
}
