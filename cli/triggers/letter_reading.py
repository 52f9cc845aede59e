"""Reads the dead letters of a topic, one partition after the other."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import NamedTuple

import trio

from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import LogEnds, Partition, fetched_batches
from tailrace.client.server_connection import RefusedError, answer_of, answered
from tailrace.client.spu_client import PATIENCE_SECONDS, PAUSE_SECONDS_MIN
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.trigger.dead_letters.dead_letter import Letter, read_letter

from .letter_selection import LetterSelection


class FoundLetter(NamedTuple):
    """A dead letter, and where it is."""

    partition: Partition
    record: Record
    letter: Letter

    @property
    def place(self) -> str:
        """The place as commands take it, such as `0/17`."""
        return f"{self.partition.number}/{self.record.offset}"

    @property
    def whole_place(self) -> str:
        """The place with its topic, such as `orders.billing.dead/0/17`."""
        return f"{self.partition}/{self.record.offset}"


class Page(NamedTuple):
    """Records that follow each other in one partition."""

    partition: Partition
    first: int
    """The offset from which was read."""
    end: int
    """The offset after the last record."""
    records: Sequence[Record]


async def letter_partitions(client: LogClient, topic: str) -> list[Partition]:
    """Returns the partitions of a topic of dead letters. Raises RefusedError."""
    partitions = (await client.partitions([topic]))[topic]
    if isinstance(partitions, RefusedError):
        is_missing = partitions.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        advice = "; a topic of dead letters is created with the first letter" if is_missing else ""
        raise RefusedError(f"{partitions}{advice}", partitions.code)
    return partitions


async def bounds_of(
    client: LogClient, logs: Mapping[Partition, LogEnds], selection: LetterSelection
) -> dict[Partition, LogEnds]:
    """Returns the part of each log that may have selected letters."""
    bounds = dict(logs)
    if selection.since_ms is not None:
        found = answered(await client.offsets_at(logs, selection.since_ms))
        bounds = {
            each: LogEnds(log.end if found[each] < 0 else max(found[each], log.start), log.end)
            for each, log in bounds.items()
        }
    if selection.places is not None:
        bounds = {each: _within(log, selection.places.get(each.number, ())) for each, log in bounds.items()}
    return bounds


def _within(log: LogEnds, ranges: Iterable[range]) -> LogEnds:
    known = [each for each in ranges if each.stop > log.start and each.start < log.end]
    if not known:
        return LogEnds(log.end, log.end)
    return LogEnds(max(log.start, min(each.start for each in known)), min(log.end, max(each.stop for each in known)))


async def pages(client: LogClient, bounds: Mapping[Partition, LogEnds]) -> AsyncGenerator[Page, None]:
    """Reads the records between the bounds. Raises RefusedError."""
    for partition, log in sorted(bounds.items()):
        offset, patient_until = log.start, trio.current_time() + PATIENCE_SECONDS
        while offset < log.end:
            (answer,) = (await client.fetch({partition: offset})).values()
            if isinstance(answer, RefusedError) and answer.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                offset = max(offset + 1, answered(await client.ends([partition]))[partition].start)
                continue
            first = offset
            try:
                for end, records in fetched_batches(answer_of(partition, answer).records):
                    if end > offset:
                        wanted = [each for each in records if offset <= each.offset < log.end]
                        yield Page(partition, offset, min(end, log.end), wanted)
                        offset = end
            except KafkaError as error:
                raise RefusedError(f"{partition}: {error}", error.code) from error
            if offset > first:
                patient_until = trio.current_time() + PATIENCE_SECONDS
            elif trio.current_time() > patient_until:
                raise RefusedError(f"{partition}: the leader sends nothing from offset {offset} on")
            else:
                await trio.sleep(PAUSE_SECONDS_MIN)


async def letters(
    client: LogClient, bounds: Mapping[Partition, LogEnds], selection: LetterSelection
) -> AsyncGenerator[FoundLetter, None]:
    """Reads the selected letters between the bounds. Raises RefusedError."""
    async for page in pages(client, bounds):
        for record in page.records:
            letter = read_letter(record)
            if letter is not None and selection.has(page.partition.number, record, letter):
                yield FoundLetter(page.partition, record, letter)
