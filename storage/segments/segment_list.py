"""The segments of one log in order, the open one last; and where in them a reader finds what it asks for."""

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
    __slots__ = ("open", "sealed")

    def __init__(self, sealed: list[SealedSegment], open_segment: OpenSegment) -> None:
        self.sealed = sealed
        self.open = open_segment

    # as a whole

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.sealed) + self.open.size

    def facts(self) -> list[SegmentFacts]:
        """Of all in order, the open one last; of its indexes nothing is said."""
        return [*(segment.facts for segment in self.sealed), self.open_facts()]

    def open_facts(self) -> SegmentFacts:
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
        """Of the sealed ones. Recovery may have found one that the manifest did not name between others that it did."""
        return [segment for segment in self.sealed if not segment.is_synced]

    def between(self, start: int, end: int) -> list[Segment]:
        """Those that reach beyond `start` and begin before `end`."""
        if start >= self.open.base:
            return [self.open]
        segments: list[Segment] = [*self.sealed[self.place_of(start) :], self.open]
        return [segment for segment in segments if segment.end > start and segment.base < end]

    def place_of(self, offset: int) -> int:
        """Which of the sealed ones holds the offset; the first, if all begin later."""
        return max(0, bisect_right(self.sealed, offset, key=_by_base) - 1)

    def close(self) -> None:
        for sealed in self.sealed:
            sealed.close()
        self.open.close()

    # batches

    def read(
        self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool, passes_empty: bool
    ) -> FileRange | None:
        """As `Log.read` says."""
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
        if start >= self.open.base:
            return self.open.headers(start, end)
        return chain.from_iterable(segment.headers(start, end) for segment in self.between(start, end))

    def ranges(self, base: int, end: int) -> list[FileRange]:
        ranges = []
        for segment in self.between(base, end):
            start = segment.position_of(base) if base > segment.base else 0
            stop = segment.position_of(end) if end < segment.end else segment.size
            if start < stop:
                ranges.append(FileRange(segment.reader.log.get(), start, stop - start))
        return ranges

    # times; each asks for the records in [start, up_to)

    def find_timestamp(self, timestamp_ms: int, start: int, up_to: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record that is not older."""
        for segment in self._readable(start, up_to):
            if (found := segment.find_timestamp(timestamp_ms, start, up_to)) is not None:
                return found
        return None

    def max_timestamp(self, start: int, up_to: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first of the newest records."""
        segments = self._readable(start, up_to)
        newest = max((segment.max_timestamp(start, up_to) for segment in segments), default=NO_TIMESTAMP)
        return None if newest == NO_TIMESTAMP else self.find_timestamp(newest, start, up_to)

    def _readable(self, start: int, up_to: int) -> list[Segment]:
        segments: list[Segment] = [*self.sealed, self.open]
        return [segment for segment in segments if segment.end > start and segment.base < up_to]
