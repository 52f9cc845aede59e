"""Partitions, the bounds of their logs, and the records in fetched batches."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from tailrace.protocol.batches.record_batch import BatchHeader, crc_of, iterate
from tailrace.protocol.batches.records import Record, read_records
from tailrace.protocol.batches.transaction_markers import Marker, marker_of
from tailrace.protocol.error_codes import ErrorCode, KafkaError


class Partition(NamedTuple):
    """The name of a partition, printed as `orders/0`."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class LogEnds(Struct, frozen=True):
    """The bounds of a log."""

    start: int
    end: int
    """The offset after the last record."""

    def ending_at(self, end: int) -> "LogEnds":
        """Returns the bounds of the part before an offset."""
        return LogEnds(self.start, max(self.start, min(self.end, end)))


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    """Groups partitions as requests need them: each topic once, with its partitions, in order."""
    of_topic = groupby(sorted(partitions), key=lambda each: each.topic)
    return [(topic, [each.number for each in those]) for topic, those in of_topic]


class FetchedBatch(NamedTuple):
    """A complete batch in a response to Fetch."""

    header: BatchHeader
    marker: Marker | None
    """How the batch ends a transaction; None if it is no marker."""
    records: list[Record]
    """The records; none in a control batch."""


def whole_batches(data: bytes) -> Iterator[FetchedBatch]:
    """Yields each complete batch. Raises KafkaError, with a sentence, at a batch that cannot be read."""
    view = memoryview(data)
    for position, header in iterate(data):
        if crc_of(view, position, header.size) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt")
        if header.is_control:
            yield FetchedBatch(header, marker_of(header, view, position), [])
        else:
            yield FetchedBatch(header, None, read_records(view[position:]))


def fetched_batches(data: bytes) -> Iterator[tuple[int, list[Record]]]:
    """Yields the offset after each complete batch, and its records; control batches have none.

    Raises KafkaError, with a sentence, at a batch that cannot be read.
    """
    for each in whole_batches(data):
        yield each.header.next_offset, each.records


class Page(NamedTuple):
    """Records that follow each other in one partition."""

    partition: Partition
    first: int
    """The offset from which was read."""
    end: int
    """The offset after the last record."""
    records: Sequence[Record]


def first_timestamp(data: bytes, offset: int) -> int | None:
    """Returns the timestamp of the first record from `offset` on; None if there is none."""
    try:
        for _, records in fetched_batches(data):
            for record in records:
                if record.offset >= offset:
                    return record.timestamp
    except KafkaError:
        return None  # a command that reads the partition will report this
    return None
