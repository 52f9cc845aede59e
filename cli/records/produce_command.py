"""`tailrace produce`: sends the lines of standard input to a topic.

Lines are sent as they arrive. With acks=all they are sent as an idempotent producer, so that a batch that is sent again
after a failure is stored once.
"""

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence

from tailrace.cli.clients.log_client import ACKS_OF_ALL, LogClient
from tailrace.cli.clients.log_facts import Partition
from tailrace.cli.clients.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.cli.clients.spu_client import SpuClient
from tailrace.cli.options.sc_options import Command, UsageError, say, show_documents
from tailrace.cli.options.spu_options import SpuAsk, named_topic, spu_command
from tailrace.cli.output.tables import table
from tailrace.protocol.batches.compression import Compression
from tailrace.runtime.chance import Chance, RandomChance
from tailrace.runtime.process import read_input
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .partition_chooser import PartitionChooser
from .produced_batches import ProducedBatches
from .produced_lines import Headers, LineFormat, Lines

INPUT_BYTES_AT_ONCE = 512 * 1024
_ACKS = {"all": ACKS_OF_ALL, "1": 1}

ReadInput = Callable[[int], Awaitable[bytes]]
"""Reads at most the given number of bytes; returns nothing at the end of the input."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC[/PARTITION]", help="Topic, or one of its partitions.")
    parser.add_argument("--key-separator", metavar="TEXT", type=_text, help="Text that ends the key in each line.")
    parser.add_argument("--null", metavar="TEXT", help="Text that stands for no value.")
    parser.add_argument(
        "--header", metavar="NAME=VALUE", action="append", default=[], help="Header of each record; may be repeated."
    )
    parser.add_argument(
        "--acks", choices=_ACKS, default="all", help="Replicas that must acknowledge a record (default: all)."
    )
    parser.add_argument(
        "--compression",
        choices=[each.name.lower() for each in Compression],
        default="none",
        help="Compression of the records (default: none).",
    )


def producing(read: ReadInput, wall_clock: WallClock, chance: Chance) -> SpuAsk:
    """Makes the function that sends the lines of an input."""

    async def produce(spus: SpuClient, arguments: argparse.Namespace) -> None:
        client = LogClient(spus)
        lines = Lines(LineFormat(_bytes(arguments.key_separator), _bytes(arguments.null)))
        headers = _headers(arguments.header)
        chooser = PartitionChooser(*await _partitions(client, arguments.topic), chance)
        acks = _ACKS[arguments.acks]
        name = await client.producer_name() if acks == ACKS_OF_ALL else None
        batches = ProducedBatches(name, Compression[arguments.compression.upper()], headers)
        if sys.stdin is not None and sys.stdin.isatty():
            say("produce", "type one record per line; end with Ctrl-D")
        try:
            is_over = False
            while not is_over:
                data = await _input(read)
                is_over = not data
                for partition, entries in chooser.divide(lines.feed(data) if data else lines.end()).items():
                    batches.add(partition, entries, wall_clock.now_ms())
                await _send(client, batches, acks)
                if lines.fault is not None:
                    raise UsageError(str(lines.fault))
        except (UsageError, RefusedError, UnreachableError) as error:
            raise type(error)(f"{error}{_written_before(batches)}") from error
        show_documents(arguments, _documents(batches), lambda: _table(batches))

    return produce


async def _input(read: ReadInput) -> bytes:
    try:
        return await read(INPUT_BYTES_AT_ONCE)
    except OSError as error:
        raise UsageError(f"standard input: {error.strerror}") from error


async def _partitions(client: LogClient, text: str) -> tuple[list[Partition], Partition | None]:
    """Returns the partitions of the topic, and the one on the command line, if any."""
    topic, numbers = named_topic(text)
    if numbers is not None and len(numbers) > 1:
        raise UsageError(f"{text}: expected TOPIC or TOPIC/PARTITION")
    partitions = (await client.partitions([topic]))[topic]
    if isinstance(partitions, RefusedError):
        raise RefusedError(f"{partitions}; create it with `tailrace topic create {topic}`")
    chosen = None if numbers is None else Partition(topic, numbers[0])
    if chosen is not None and chosen not in partitions:
        raise RefusedError(f"there is no partition {chosen}")
    return partitions, chosen


async def _send(client: LogClient, batches: ProducedBatches, acks: int) -> None:
    """Sends batches until all of them are acknowledged. Raises RefusedError."""
    while following := batches.next():
        refused: RefusedError | None = None
        for partition, answer in (await client.append(following, acks)).items():
            try:
                batches.on_answer(partition, answer)
            except RefusedError as error:
                refused = RefusedError(f"{partition}: {reason_of(error)}", error.code)
        if refused is not None:
            raise refused


def _written_before(batches: ProducedBatches) -> str:
    if not batches.count:
        return ""
    return f"; {batches.count} {'record was' if batches.count == 1 else 'records were'} written before"


def _documents(batches: ProducedBatches) -> list[dict[str, object]]:
    return [
        {
            "topic": partition.topic,
            "partition": partition.number,
            "records": written.records,
            "firstOffset": written.first,
            "lastOffset": written.last,
        }
        for partition, written in sorted(batches.written.items())
    ]


def _table(batches: ProducedBatches) -> str:
    if not batches.written:
        return "Nothing was written: the input has no lines."
    return table(
        ("TOPIC", "PARTITION", "RECORDS", "FIRST OFFSET", "LAST OFFSET"),
        [tuple(document.values()) for document in _documents(batches)],
    )


# command line


def _headers(given: Sequence[str]) -> Headers:
    headers: list[tuple[str, bytes | None]] = []
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"--header {each}: expected NAME=VALUE")
        name.encode()  # raises UnicodeEncodeError: clients cannot read a header whose name is not text
        headers.append((name, _bytes(value)))
    return headers


def _bytes(text: str | None) -> bytes | None:
    """Returns the bytes that were on the command line."""
    return None if text is None else text.encode(errors="surrogateescape")


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the text is empty")
    return text


def commands(read: ReadInput, wall_clock: WallClock, chance: Chance) -> dict[str, Command]:
    """Makes the command."""
    return {"produce": spu_command("produce", _options, producing(read, wall_clock, chance))}


COMMANDS = commands(read_input, SystemClock(), RandomChance())
