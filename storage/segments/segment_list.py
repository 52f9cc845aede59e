"""The segments of one log in order, the open one last, and reads that may span several of them."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter

from tailrace.protocol.batches.control_batches import ControlKind
from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.runtime.file_range import FileRange
from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.manifest.manifest import SegmentFacts

from .open_segment import OpenSegment
from .sealed_segment import SealedSegment

_by_base = attrgetter("base")
by_end = attrgetter("end")

Segment = SealedSegment | OpenSegment


class Segments:
    """The sealed segments and the open segment of one log."""

    __slots__ = ("open", "sealed")

    def __init__(self, sealed: list[SealedSegment], open_segment: OpenSegment) -> None:
        self.sealed = sealed
        self.open = open_segment

    # the list

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.sealed) + self.open.size

    def facts(self) -> list[SegmentFacts]:
        """Returns the facts about all segments in order, the open one last. They contain nothing about indexes."""
        return [*(segment.facts for segment in self.sealed), self.open_facts()]

    def open_facts(self) -> SegmentFacts:
        """Returns the facts about the open segment, without its index."""
        summary = self.open.summary
        return SegmentFacts(
            summary.base,
            summary.end,
            summary.epoch,
            summary.size,
            summary.checksum,
            summary.first_timestamp,
            summary.max_timestamp,
        )

    def unsynced(self) -> list[SealedSegment]:
        """Returns the sealed segments that are not synced.

        Recovery may have found such a segment between synced ones.
        """
        return [segment for segment in self.sealed if not segment.is_synced]

    def between(self, start: int, end: int) -> list[Segment]:
        """Returns the segments that end after `start` and begin before `end`."""
        if start >= self.open.base:
            return [self.open]
        segments: list[Segment] = [*self.sealed[self.place_of(start) :], self.open]
        return [segment for segment in segments if segment.end > start and segment.base < end]

    def place_of(self, offset: int) -> int:
        """Returns the index of the sealed segment that holds the offset; 0 if all begin later."""
        return max(0, bisect_right(self.sealed, offset, key=_by_base) - 1)

    def close(self) -> None:
        for sealed in self.sealed:
            sealed.close()
        self.open.close()

    # batches

    def read(
        self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool, passes_empty: bool
    ) -> FileRange | None:
        """Returns a range of batches, as `Log.read` describes."""
        open_segment = self.open
        if offset >= open_segment.summary.base:
            found = open_segment.read(offset, bytes_max, up_to, at_least_one=at_least_one)
            return found if found else None
        passed: FileRange | None = None
        for sealed in self.sealed[self.place_of(offset) :]:
            if sealed.base >= up_to:
                return passed
            found = sealed.read(offset, bytes_max, up_to, at_least_one=at_least_one)
            if found and passes_empty and sealed.has_no_records:
                passed = found
            elif found is not None:
                return found or passed
        return open_segment.read(offset, bytes_max, up_to, at_least_one=at_least_one) or passed

    def headers(self, start: int, end: int) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        """Yields the headers of batches in [start, end), and the kind of the control batches that recovery wrote."""
        if start >= self.open.base:
            return self.open.headers(start, end)
        return chain.from_iterable(segment.headers(start, end) for segment in self.between(start, end))

    def ranges(self, base: int, end: int) -> list[FileRange]:
        """Returns the batches in [base, end), one range per segment."""
        ranges = []
        for segment in self.between(base, end):
            start = segment.position_of(base) if base > segment.base else 0
            stop = segment.position_of(end) if end < segment.end else segment.size
            if start < stop:
                ranges.append(FileRange(segment.reader.log.get(), start, stop - start))
        return ranges

    def end_of(self, found: FileRange, start: int, end: int) -> int:
        """Returns the offset before which all batches of a range end. The range was read from offsets in [start, end).

        The result is `end` at most. It may be larger than the end of the last batch, by a gap.
        """
        for segment in self.between(start, end):
            file = segment.reader.log.get()
            if file.path == found.file.path:
                stop = found.position + found.count
                following = segment.reader.header_at(stop).base_offset if stop < segment.size else segment.end
                return min(following, end)
        return end

    # timestamps of the records in [start, up_to)

    def find_timestamp(self, timestamp_ms: int, start: int, up_to: int) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first record at or after the time."""
        for segment in self._readable(start, up_to):
            if (found := segment.find_timestamp(timestamp_ms, start, up_to)) is not None:
                return found
        return None

    def max_timestamp(self, start: int, up_to: int) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first record with the largest timestamp."""
        segments = self._readable(start, up_to)
        newest = max((segment.max_timestamp(start, up_to) for segment in segments), default=NO_TIMESTAMP)
        return None if newest == NO_TIMESTAMP else self.find_timestamp(newest, start, up_to)

    def _readable(self, start: int, up_to: int) -> list[Segment]:
        segments: list[Segment] = [*self.sealed, self.open]
        return [segment for segment in segments if segment.end > start and segment.base < up_to]
