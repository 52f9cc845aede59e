"""`tailrace consume`: prints the records of a topic, for people or for scripts.

The command joins no group and commits nothing. Records of one partition come in order, and records of several
partitions as they arrive.
"""

import argparse
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import trio
from msgspec import Struct

from tailrace.cli.clients.log_client import Fetched, LogClient
from tailrace.cli.clients.log_facts import LogEnds, Partition
from tailrace.cli.clients.server_connection import Answer, RefusedError, reason_of, unless_refused
from tailrace.cli.clients.spu_client import PATIENCE_SECONDS, PAUSE_SECONDS_MIN, SpuClient
from tailrace.cli.options.sc_options import Command, UsageError, say
from tailrace.cli.options.spu_options import SpuAsk, named_topic, spu_command
from tailrace.cli.output.times import duration_ms, moment_ms
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.process import run_until_stopped, write_output
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .consume_progress import Consumed, Consuming
from .record_output import RecordOutput, output_format, value_format

if TYPE_CHECKING:
    from tailrace.cli.clients.quorum_client import QuorumFetched

BEGINNING = "beginning"
END = "end"
_FIRST_MS = 0
_OFFSET_MAX = 2**63 - 1
_UNCOMMITTED_WARNING = (
    "records marked as uncommitted may be lost when another leader is elected, and other records may get their offsets"
)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC[:P,P]", help="Topic, or some of its partitions.")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        type=_start,
        default=BEGINNING,
        help="Start at beginning (default), end, an offset, a time (2026-01-31T12:00:00Z), or so long ago (90m, 2d).",
    )
    parser.add_argument("--count", metavar="N", type=_count, help="Stop after N records.")
    parser.add_argument("--follow", "-f", action="store_true", help="Wait for more records, until Ctrl-C.")
    parser.add_argument("--values", action="store_true", help="Print only the values, unchanged, each with a line end.")
    parser.add_argument(
        "--uncommitted", action="store_true", help="Read to the log end; records that are not committed may be lost."
    )
    parser.add_argument(
        "--quorum",
        action="store_true",
        help="Ask the replicas instead of the leader which records are acknowledged; works without a leader.",
    )


def consuming(wall_clock: WallClock) -> SpuAsk:
    """Makes the function that prints records; `wall_clock` tells what a duration ago means."""

    async def consume(spus: SpuClient, arguments: argparse.Namespace) -> None:
        if arguments.start == END and not arguments.follow:
            raise UsageError("--from end: there are no records yet; add --follow to wait for them")
        if arguments.values and arguments.output != "table":
            raise UsageError(f"--values: leave out --output {arguments.output}")
        if arguments.quorum:
            _check_quorum(arguments)
            work = partial(_consume_from_quorum, spus, arguments)
        else:
            work = partial(_consume, LogClient(spus), arguments, wall_clock.now_ms())
        await (run_until_stopped(work) if arguments.follow else work())

    return consume


async def _consume(client: LogClient, arguments: argparse.Namespace, now_ms: int) -> None:
    partitions = await _partitions(client, arguments.topic)
    uncommitted: bool = arguments.uncommitted
    if uncommitted:
        await client.check_shows_uncommitted(partitions)
        say("consume", _UNCOMMITTED_WARNING)
    logs = _answered(await client.ends(partitions, uncommitted=uncommitted))
    starts = await _starts(client, arguments.start, logs, now_ms)
    ends = None if arguments.follow else {each: log.end for each, log in logs.items()}
    reader = Consuming(starts, ends, arguments.count, uncommitted)
    _enter(reader, logs)
    output = _output(arguments)
    patient_until = trio.current_time() + PATIENCE_SECONDS
    while wanted := reader.wanted:
        for partition, answer in (await client.fetch(wanted, uncommitted=uncommitted)).items():
            if isinstance(answer, RefusedError) and answer.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                _enter(reader, _answered(await client.ends([partition], uncommitted=uncommitted)))
                continue
            await output.show(_taken(reader, partition, _answer(partition, answer)))
        if reader.wanted != wanted:
            patient_until = trio.current_time() + PATIENCE_SECONDS
            continue
        if not arguments.follow and trio.current_time() > patient_until:
            partition, offset = next(iter(wanted.items()))
            raise RefusedError(f"{partition}: the leader sends nothing from offset {offset} on, but the log goes on")
        await trio.sleep(PAUSE_SECONDS_MIN)


def _check_quorum(arguments: argparse.Namespace) -> None:
    if arguments.uncommitted:
        raise UsageError("--quorum and --uncommitted cannot be used together")
    if arguments.start != BEGINNING and not isinstance(arguments.start, int):
        raise UsageError("--quorum: --from must be beginning or an offset, because only leaders know times and ends")


async def _consume_from_quorum(spus: SpuClient, arguments: argparse.Namespace) -> None:
    # Imported here because it imports much of the replication.
    from tailrace.cli.clients.quorum_client import QuorumClient, TooFewStoresError

    client = QuorumClient(spus)
    partitions = await _partitions(LogClient(spus), arguments.topic)
    starts: dict[Partition, int] = dict.fromkeys(partitions, 0 if arguments.start == BEGINNING else arguments.start)
    reader = Consuming(starts, None if arguments.follow else dict.fromkeys(partitions, _OFFSET_MAX), arguments.count)
    output = _output(arguments)
    patient_until = trio.current_time() + PATIENCE_SECONDS
    while wanted := reader.wanted:
        stays: RefusedError | None = None
        for partition, offset in wanted.items():
            try:
                fetched = await client.read(partition, offset)
            except TooFewStoresError as error:
                stays = error
                continue
            await output.show(_taken_from_quorum(reader, partition, fetched))
            if fetched.end == offset < fetched.may_end:
                stays = RefusedError(_undecided(partition, fetched))
        if reader.wanted != wanted:
            patient_until = trio.current_time() + PATIENCE_SECONDS
            continue
        if stays is not None and not arguments.follow and trio.current_time() > patient_until:
            raise stays
        await trio.sleep(PAUSE_SECONDS_MIN)


def _taken_from_quorum(reader: Consuming, partition: Partition, fetched: "QuorumFetched") -> list[Consumed]:
    position = reader.positions[partition]
    if fetched.start > position > 0:
        say("consume", f"{partition} begins at offset {fetched.start}")
    if reader.ends is not None:
        reader.ends[partition] = min(reader.ends[partition], fetched.may_end)
    reader.positions[partition] = fetched.start
    taken = _taken(reader, partition, Fetched(fetched.records, fetched.end))
    if reader.positions[partition] >= fetched.records_end:
        reader.positions[partition] = fetched.end
    return taken


def _undecided(partition: Partition, fetched: "QuorumFetched") -> str:
    why = "".join(f"; {each}" for each in fetched.silent)
    return (
        f"{partition}: everything below offset {fetched.end} is acknowledged and has been shown; whether the records "
        f"up to {fetched.may_end} are acknowledged cannot be told without more replicas or a leader{why}"
    )


async def _partitions(client: LogClient, text: str) -> list[Partition]:
    topic, numbers = named_topic(text)
    there = unless_refused((await client.partitions([topic]))[topic])
    chosen = there if numbers is None else [Partition(topic, each) for each in sorted(set(numbers))]
    for each in chosen:
        if each not in there:
            raise RefusedError(f"there is no partition {each}")
    return chosen


async def _starts(
    client: LogClient, start: "Start", logs: Mapping[Partition, LogEnds], now_ms: int
) -> dict[Partition, int]:
    match start:
        case Since():
            timestamp_ms = max(now_ms - start.ms if start.is_duration else start.ms, _FIRST_MS)
            found = _answered(await client.offsets_at(logs, timestamp_ms))
            return {each: logs[each].end if offset < 0 else offset for each, offset in found.items()}
        case int():
            return dict.fromkeys(logs, start)
    return {each: log.start if start == BEGINNING else log.end for each, log in logs.items()}


def _enter(reader: Consuming, logs: Mapping[Partition, LogEnds]) -> None:
    for partition, log in logs.items():
        note = reader.move_into(partition, log)
        if note is not None:
            say("consume", note)


def _taken(reader: Consuming, partition: Partition, fetched: Fetched) -> list[Consumed]:
    try:
        return reader.take(partition, fetched)
    except KafkaError as error:
        raise RefusedError(f"{partition}: {error.message}", error.code) from error


def _output(arguments: argparse.Namespace) -> RecordOutput:
    return RecordOutput(value_format if arguments.values else output_format(arguments.output), write_output)


def _answered(answers: Mapping[Partition, Answer | RefusedError]) -> dict[Partition, Answer]:
    return {partition: _answer(partition, answer) for partition, answer in answers.items()}


def _answer(partition: Partition, answer: Answer | RefusedError) -> Answer:
    if isinstance(answer, RefusedError):
        raise RefusedError(f"{partition}: {reason_of(answer)}", answer.code)
    return answer


# types of options


class Since(Struct, frozen=True):
    """A point in time, or a duration before now."""

    ms: int
    is_duration: bool


Start = str | int | Since


def _start(text: str) -> Start:
    if text in (BEGINNING, END):
        return text
    if re.fullmatch(r"[0-9]{1,18}", text) is not None:
        return int(text)
    for read, is_duration in ((duration_ms, True), (moment_ms, False)):
        found = read(text)
        if found is not None:
            return Since(found, is_duration)
    raise argparse.ArgumentTypeError(
        f"{text} is not beginning, end, an offset, a time such as 2026-01-31T12:00:00Z, or a duration such as 90m"
    )


def _count(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text) is None or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of records")
    return int(text)


def commands(wall_clock: WallClock) -> dict[str, Command]:
    """Makes the command."""
    return {"consume": spu_command("consume", _options, consuming(wall_clock))}


COMMANDS = commands(SystemClock())
