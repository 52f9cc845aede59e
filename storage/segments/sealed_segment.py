"""A sealed segment of a log, which can be read, stamped and removed, but never gets another record."""

from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from tailrace.protocol.batches.control_batches import ControlKind
from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.runtime.file_range import FileRange
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.manifest.manifest import SegmentFacts

from .restamping import UnstampedTail, restamp
from .segment_reader import SegmentReader


class SealedSegment:
    """A complete segment."""

    __slots__ = ("_has_no_records", "_unstamped_tail", "facts", "is_closed", "is_synced", "reader")

    def __init__(self, facts: SegmentFacts, reader: SegmentReader, *, is_synced: bool) -> None:
        self.facts = facts
        self.reader = reader
        self.is_synced = is_synced
        """Whether the segment is on the disk and named by the manifest."""
        self.is_closed = False
        """Whether the segment no longer belongs to its log: removed, truncated, replaced, or the log was closed."""
        self._unstamped_tail: UnstampedTail | None = None
        self._has_no_records: bool | None = None
        """The cached value of `has_no_records`; None until it was computed."""

    @property
    def base(self) -> int:
        return self.facts.base

    @property
    def end(self) -> int:
        return self.facts.end

    @property
    def size(self) -> int:
        return self.facts.size

    @property
    def has_no_records(self) -> bool:
        """Whether compaction has left only headers.

        Records may have no timestamp, or one before 1970, so a segment without timestamps may have records: then the
        first batches are looked at.
        """
        if self._has_no_records is None:
            self._has_no_records = self.facts.max_timestamp == NO_TIMESTAMP and not any(
                header.record_count for header, _ in self.headers(self.facts.base, self.facts.end)
            )
        return self._has_no_records

    def position_of(self, offset: int) -> int:
        """Returns the position of the first batch that ends after the offset."""
        return self.reader.position_of(offset, self.facts.size)

    def read(self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool) -> FileRange | None:
        """Returns the range of the batches from `offset` on, as `Log.read` describes."""
        size = self.facts.size
        start = self.reader.position_of(offset, size)
        stop = size if up_to >= self.facts.end else self.reader.position_of(up_to, size)
        return self.reader.range(start, stop, bytes_max, at_least_one=at_least_one)

    def headers(self, start: int, end: int) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        """Yields the headers of batches in [start, end), and the kind of the control batches that recovery wrote."""
        return self.reader.headers(self.position_of(start), self.facts.size, end, self.facts.end)

    async def restamp(self, base: int, end: int, epoch: int) -> int:
        """Stamps `epoch` on the batches that begin in [base, end), and returns how many had another epoch.

        This is the only change that is made to the content of a sealed segment.
        """
        stamped = await restamp(self.reader, self.facts, base, end, epoch, self._unstamped_tail)
        self._unstamped_tail = stamped.behind
        self.facts = replace(self.facts, checksum=stamped.checksum, epoch=stamped.epoch)
        return stamped.count

    def correct_times(self, first: int, largest: int, entries: IndexEntries) -> None:
        """Corrects timestamps that were taken from damaged headers, and the index with them."""
        index = self.reader.index
        # What does not fit on the disk now is rebuilt when it is needed.
        with suppress(OSError):
            index.replace(entries)
        self.facts = replace(
            self.facts,
            first_timestamp=first,
            max_timestamp=largest,
            index_entries=len(index),
            index_checksum=index.checksum,
            time_index_checksum=index.time_checksum,
            last_indexed_position=index.last_position,
        )

    def find_timestamp(self, timestamp_ms: int, from_offset: int, up_to: int) -> tuple[int, int, int] | None:
        if self.facts.max_timestamp < timestamp_ms:
            return None
        return self.reader.find_timestamp(timestamp_ms, from_offset, up_to, self.facts.size)

    def max_timestamp(self, from_offset: int, up_to: int) -> int:
        if from_offset <= self.facts.base and up_to >= self.facts.end:
            return self.facts.max_timestamp
        return self.reader.max_timestamp(from_offset, up_to, self.facts.size)

    def close(self) -> None:
        self.is_closed = True
        self.reader.log.close()
        self.reader.index.close()
