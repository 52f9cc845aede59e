"""`tailrace produce`: sends records to a topic, from the lines of an input or from a generator.

Records are sent as they arrive. With acks=all they are sent as an idempotent producer, so that a batch that is sent
again after a failure is stored once.
"""

import argparse
import sys

from tailrace.cli.options.sc_options import AskBrokers, Command, StoppedError, UsageError, say, show_documents
from tailrace.cli.options.spu_options import named_topic, spu_command
from tailrace.cli.output.printing import counted
from tailrace.cli.output.progress import Progress
from tailrace.cli.output.tables import table
from tailrace.cli.records.formats.produced_lines import Lines
from tailrace.client.log_client import ACKS_OF_ALL, LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.partition_chooser import PartitionChooser
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.client.spu_client import SpuClient
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.chance import Chance, RandomChance
from tailrace.runtime.process import Stop, file_input, read_input, run_stoppable
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .generated_records import GeneratedRecords
from .produce_options import ACKS, LINE_END, check, configure, entry_reader, generation, headers_of
from .produce_sources import GeneratedSource, InputSource, ReadInput, Source
from .produced_batches import ProducedBatches

_KEY_BYTES = 20
"""About how many bytes of a generated record are not its value."""


def producing(read: ReadInput, wall_clock: WallClock, chance: Chance) -> AskBrokers:
    """Makes the function that sends records; `read` reads standard input."""

    async def produce(spus: SpuClient, arguments: argparse.Namespace) -> None:
        check(arguments)
        headers = headers_of(arguments.header)
        client = LogClient(spus)
        partitions, chosen = await _partitions(client, arguments.topic)
        source = _source(arguments, read, partitions, chosen)
        acks = ACKS[arguments.acks]
        name = await client.producer_name() if acks == ACKS_OF_ALL else None
        batches = ProducedBatches(name, Compression[arguments.compression.upper()], headers)
        chooser = PartitionChooser(partitions, chosen, chance)
        progress = _progress(arguments)

        async def work(stop: Stop) -> None:
            while True:
                entries = None
                with stop.ends_waiting():
                    entries = await source.next()
                if entries is None:
                    return
                for partition, its_entries in chooser.divide(entries).items():
                    batches.add(partition, its_entries, wall_clock.now_ms())
                await _send(client, batches, acks)
                if progress is not None:
                    progress.move_to(batches.count)
                source.check()

        try:
            stop = await run_stoppable(work)
        except (UsageError, RefusedError, UnreachableError) as error:
            raise type(error)(f"{error}{_written_before(batches)}") from error
        finally:
            if progress is not None:
                progress.clear()
        show_documents(arguments, _documents(batches), lambda: _table(batches))
        if stop.signal is not None:
            raise StoppedError(_stopped(batches), stop.signal)

    return produce


def _source(
    arguments: argparse.Namespace, read: ReadInput, partitions: list[Partition], chosen: Partition | None
) -> Source:
    generated = generation(arguments)
    if generated is not None:
        records = GeneratedRecords(
            RandomChance(generated.seed),
            generated.value_bytes,
            generated.key_count,
            [each.number for each in partitions],
        )
        return GeneratedSource(records, generated.count, generated.value_bytes + _KEY_BYTES, generated.rate)
    name = "standard input"
    if arguments.input_file is not None:
        name = arguments.input_file
        try:
            read = file_input(name)
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from error
    elif sys.stdin is not None and sys.stdin.isatty():
        say("produce", "type one record per line; end with Ctrl-D")
    read_entry = entry_reader(arguments, partitions, is_chosen=chosen is not None)
    return InputSource(read, Lines(read_entry, arguments.delimiter or LINE_END), name)


def _progress(arguments: argparse.Namespace) -> Progress | None:
    """Returns a bar for generated records, whose number is known; None for an input."""
    if arguments.generate is None:
        return None
    return Progress(arguments.generate, wanted=False, doing="producing", amount="{:,} records".format)


async def _partitions(client: LogClient, text: str) -> tuple[list[Partition], Partition | None]:
    """Returns the partitions of the topic, and the one on the command line, if any."""
    topic, numbers = named_topic(text)
    if numbers is not None and len(numbers) > 1:
        raise UsageError(f"{text}: expected TOPIC or TOPIC/PARTITION")
    partitions = (await client.partitions([topic]))[topic]
    if isinstance(partitions, RefusedError):
        is_missing = partitions.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        advice = f"; create it with `tailrace topic create {topic}`" if is_missing else ""
        raise RefusedError(f"{partitions}{advice}", partitions.code)
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
    return f"; {counted(batches.count, 'record was', 'records were')} written before"


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
        return "Nothing was written: there was no record in the input."
    return table(
        ("TOPIC", "PARTITION", "RECORDS", "FIRST OFFSET", "LAST OFFSET"),
        [tuple(document.values()) for document in _documents(batches)],
    )


def _stopped(batches: ProducedBatches) -> str:
    written = f"stopped after {counted(batches.count, 'record was', 'records were')} written"
    if not batches.waiting_count:
        return written
    return f"{written}; {batches.waiting_count} more may have been written"


def commands(read: ReadInput, wall_clock: WallClock, chance: Chance) -> dict[str, Command]:
    """Makes the command."""
    return {"produce": spu_command("produce", configure, producing(read, wall_clock, chance))}


COMMANDS = commands(read_input, SystemClock(), RandomChance())
