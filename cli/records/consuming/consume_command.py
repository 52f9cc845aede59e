"""`tailrace consume`: prints the records of topics, for people or for scripts.

Without `--group` the command joins no group and commits nothing. Records of one partition come in order, and records of
several partitions as they arrive.
"""

import argparse
from collections.abc import Iterable
from functools import partial

import trio

from tailrace.cli.options.sc_options import AskBrokers, Command, UsageError, say
from tailrace.cli.options.spu_options import spu_command
from tailrace.cli.records.formats.record_format import RecordFormat
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, answered
from tailrace.client.spu_client import SpuClient
from tailrace.runtime.process import run_until_stopped, write_output
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .consume_options import check, configure
from .consume_progress import Consuming
from .consume_ranges import ends_of, offsets_of
from .consume_request import ConsumeRequest
from .consume_tail import last_records
from .leader_reading import LeaderReading, enter
from .record_filters import record_filter
from .record_output import Format, RecordOutput, WriteOutput, output_format, value_format
from .topic_choice import REFRESH_SECONDS, TopicChoice

_PAUSE_SECONDS = 0.5
_UNCOMMITTED_WARNING = (
    "records marked as uncommitted may be lost when another leader is elected, and other records may get their offsets"
)


def consuming(wall_clock: WallClock, write: WriteOutput) -> AskBrokers:
    """Makes the function that prints records; `wall_clock` tells what a duration ago means."""

    async def consume(spus: SpuClient, arguments: argparse.Namespace) -> None:
        check(arguments)
        choice = TopicChoice(arguments.topics)
        selected = record_filter(arguments.key, arguments.header)
        request = ConsumeRequest(
            arguments,
            choice,
            None if selected is None else selected.matches,
            RecordOutput(_format(arguments), write),
            wall_clock.now_ms(),
        )
        if arguments.group is not None:
            # Imported here because no other way of reading needs groups.
            from .consume_group import consume_in_group

            if choice.names_partitions:
                raise UsageError("--group: leave out the partitions, because the group divides them")
            await consume_in_group(spus, request)
            return
        if arguments.quorum:
            # Imported here because it imports much of the replication.
            from .consume_quorum import consume_from_quorum

            work = partial(consume_from_quorum, spus, request)
        else:
            work = partial(_consume, LogClient(spus), request)
        await (run_until_stopped(work) if arguments.follow else work())

    return consume


async def _consume(client: LogClient, request: ConsumeRequest) -> None:
    arguments, choice, output, now_ms = request.arguments, request.choice, request.output, request.now_ms
    partitions = await choice.partitions(client)
    if not partitions:
        if not arguments.follow:
            raise RefusedError(choice.no_match())
        say("consume", f"{choice.no_match()} yet")
    if arguments.uncommitted:
        await client.check_shows_uncommitted(partitions)
        say("consume", _UNCOMMITTED_WARNING)
    logs = answered(await client.ends(partitions, uncommitted=arguments.uncommitted))
    readable = answered(await client.ends(partitions, only_stable=True)) if request.only_stable else logs
    ends = None if arguments.follow else {each: log.end for each, log in readable.items()}
    if arguments.stop is not None:
        ends = await ends_of(client, arguments.stop, readable, now_ms)
    if arguments.tail is None:
        starts = await offsets_of(client, arguments.start, logs, now_ms)
    else:
        if ends is not None:
            readable = {each: log.ending_at(ends[each]) for each, log in readable.items()}
        await output.show(await last_records(client, readable, arguments.tail, request.reader))
        starts = {each: log.end for each, log in readable.items()}
    reader = request.reader(starts, ends)
    enter(reader, logs)
    reading = LeaderReading(client, reader, choice.is_only_matched if arguments.follow else lambda topic: False)
    refresh_at = trio.current_time() + REFRESH_SECONDS
    while reader.count != 0:
        if reader.wanted:
            for _, records in await reading.next():
                await output.show(records)
        elif arguments.follow:
            await trio.sleep(_PAUSE_SECONDS)
        else:
            return
        if arguments.follow and trio.current_time() >= refresh_at:
            await _add_new(client, reader, await choice.partitions(client))
            refresh_at = trio.current_time() + REFRESH_SECONDS


async def _add_new(client: LogClient, reader: Consuming, partitions: Iterable[Partition]) -> None:
    """Adds partitions that were created since the start, from their first record on."""
    new = [each for each in partitions if each not in reader.positions]
    if new:
        logs = answered(await client.ends(new, uncommitted=reader.uncommitted))
        reader.positions.update({each: log.start for each, log in logs.items()})


def _format(arguments: argparse.Namespace) -> Format:
    if arguments.values:
        return value_format
    if arguments.format is not None:
        chosen: RecordFormat = arguments.format
        return chosen.with_null((arguments.null or "").encode(errors="surrogateescape"))
    return output_format(arguments.output)


def commands(wall_clock: WallClock, write: WriteOutput = write_output) -> dict[str, Command]:
    """Makes the command; `write` writes to standard output."""
    return {"consume": spu_command("consume", configure, consuming(wall_clock, write))}


COMMANDS = commands(SystemClock())
