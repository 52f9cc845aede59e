"""Reads the dead letters of a topic, one partition after the other."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import NamedTuple

from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError, answered
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode
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


async def letters(
    client: LogClient, bounds: Mapping[Partition, LogEnds], selection: LetterSelection
) -> AsyncGenerator[FoundLetter, None]:
    """Reads the selected letters between the bounds. Raises RefusedError."""
    async for page in client.pages(bounds):
        for record in page.records:
            letter = read_letter(record)
            if letter is not None and selection.has(page.partition.number, record, letter):
                yield FoundLetter(page.partition, record, letter)
