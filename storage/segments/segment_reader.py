"""Finds batches and records in one segment, open or sealed, with the help of its index."""

from collections.abc import Callable, Iterator

from tailrace.protocol.batches.control_batches import ControlKind
from tailrace.protocol.batches.keyed_records import record_times
from tailrace.protocol.batches.record_batch import HEADER_SIZE, BatchHeader, crc_of, read_header
from tailrace.protocol.batches.records import open_body
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.file_range import FileRange
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.indexes.open_files import LazyFile
from tailrace.storage.indexes.segment_index import Place, SegmentIndex
from tailrace.storage.indexes.time_index import NO_TIMESTAMP

from .batch_walk import FAR_BYTES, kind_at, walk


class SegmentReader:
    """Reads one segment.

    `size` is always the part of the file that may be read, since an open segment grows meanwhile.
    """

    __slots__ = ("_base", "index", "interval_bytes", "log")

    def __init__(self, base: int, log: LazyFile, index: SegmentIndex, interval_bytes: int) -> None:
        self._base = base
        self.log = log
        self.index = index
        self.interval_bytes = interval_bytes

    def range(self, start: int, stop: int, bytes_max: int, *, at_least_one: bool) -> FileRange | None:
        """Returns the whole batches from `start` on that end by `stop` and fit in `bytes_max`.

        With `at_least_one` the first batch is returned even if it is larger. Returns None if there are no batches, and
        an empty range if the first one is too large.
        """
        if start >= stop:
            return None
        file = self.log.get()
        if stop - start > bytes_max:
            end = self.boundary(start, start + bytes_max, stop)
            if end == start and at_least_one:
                end = start + self.header_at(start).size
            stop = end
        return FileRange(file, start, stop - start)

    def position_of(self, offset: int, size: int) -> int:
        """Returns the position of the first batch that ends after the offset; `size` if there is none.

        Raises KafkaError (CORRUPT_MESSAGE) if a header on the way is damaged, because a reader must not miss the
        batches after it.
        """
        file = self.log.for_lookup()
        (relative_offset, end, _), passed = self.before_offset(offset, size), None
        next_offset, is_in_place = self._base + relative_offset, True
        for position, header, _ in walk(file, end, size):
            if header.base_offset <= offset <= header.last_offset:
                return position
            if header.last_offset >= offset:
                break
            end, passed = position + header.size, header
            next_offset, is_in_place = header.next_offset, header.base_offset >= next_offset
        else:
            if end < size:
                raise _too_long(end)
        if passed is not None:
            # There is a gap behind the last batch: either compaction left it, or the header of that batch is corrupt.
            start = end - passed.size
            if crc_of(file.read_at(start, passed.size), 0, passed.size) != passed.crc:
                return start
            if not is_in_place:
                # Its base offset is probably corrupt, which no checksum covers; with the right one it might hold the
                # offset.
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {start} is out of place")
        return end

    def header_at(self, position: int) -> BatchHeader:
        return read_header(self.log.get().read_at(position, HEADER_SIZE))

    def before_offset(self, offset: int, size: int) -> Place:
        """Returns the start of a batch that lies at or shortly before the offset."""
        relative_offset = max(0, offset - self._base)
        return self._find(lambda index: index.before_offset(relative_offset), size)

    def headers(
        self, position: int, size: int, up_to: int, segment_end: int
    ) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        """Yields the headers of batches from `position` on that begin before `up_to`, and what recovery wrote among
        them.

        Raises KafkaError (CORRUPT_MESSAGE) if a batch is damaged or lies beyond the segment's end; the batches after it
        would seem to be missing.
        """
        file, end = self.log.get(), position
        for at, header, _ in walk(file, position, size):
            if header.base_offset >= segment_end:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {at} is out of its segment")
            if header.base_offset >= up_to:
                return
            yield header, kind_at(file, at, header)
            end = at + header.size
        if end < size:
            raise _too_long(end)

    def boundary(self, start: int, limit: int, size: int) -> int:
        """Returns the end of the last whole batch from `start` on that ends by `limit`; `start` if there is none."""
        boundary = max(start, self._find(lambda index: index.up_to_position(limit), size).position)
        for position, header, _ in walk(self.log.for_lookup(), boundary, size):
            if position + header.size > limit:
                break
            boundary = position + header.size
        return boundary

    def find_timestamp(self, timestamp_ms: int, from_offset: int, up_to: int, size: int) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first record in [from_offset, up_to) at or after the
        time."""
        file = self.log.get()
        # Begin near `from_offset`, so that deleted records are not walked over, however many there are.
        by_time = self._find(lambda index: index.before_time(timestamp_ms), size)
        near = max(by_time.position, self.before_offset(from_offset, size).position)
        for position, header, _ in walk(file, near, size, FAR_BYTES):
            if header.base_offset >= up_to:
                return None
            if header.max_timestamp < timestamp_ms or header.last_offset < from_offset:
                continue
            for offset, time in self._times(position, header):
                if time >= timestamp_ms and from_offset <= offset < up_to:
                    return time, offset, header.leader_epoch
        return None

    def max_timestamp(self, from_offset: int, up_to: int, size: int) -> int:
        """Returns the largest timestamp of the records in [from_offset, up_to); NO_TIMESTAMP if there are none."""
        file, largest = self.log.get(), NO_TIMESTAMP
        _, near, before = self.before_offset(from_offset, size)
        _, end, newest = self.before_offset(up_to, size)
        for position, header, _ in walk(file, near, end, FAR_BYTES):
            if header.base_offset >= from_offset and (newest > before or newest == largest):
                largest = newest  # the index tells the maximum in between, unless it comes from an earlier batch
                break
            if header.record_count:
                before = max(before, header.max_timestamp)
                largest = self._larger(largest, position, header, from_offset, up_to)
        for position, header, _ in walk(file, max(near, end), size, FAR_BYTES):
            if header.base_offset >= up_to:
                break
            if header.record_count:
                largest = self._larger(largest, position, header, from_offset, up_to)
        return largest

    def _larger(self, largest: int, position: int, header: BatchHeader, from_offset: int, up_to: int) -> int:
        """Returns the larger of `largest` and the largest timestamp of the batch's records in [from_offset, up_to)."""
        if header.max_timestamp <= largest or header.last_offset < from_offset:
            return largest
        if from_offset <= header.base_offset and header.last_offset < up_to:
            return header.max_timestamp
        within = (time for offset, time in self._times(position, header) if from_offset <= offset < up_to)
        return max(largest, max(within, default=largest))

    def _times(self, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
        """Yields offset and timestamp of each record of the batch lazily, since there may be millions."""
        batch = self.log.get().read_at(position, header.size)
        for offset_delta, delta in record_times(open_body(batch, header), header.record_count):
            time = header.max_timestamp if header.is_log_append_time else header.timestamp_at(delta)
            yield header.base_offset + offset_delta, time

    def _find(self, find: Callable[[SegmentIndex], Place], size: int) -> Place:
        """Looks up the index, and rebuilds it if the log shows that it has become corrupt since it was verified."""
        place = find(self._sound_index(size))
        if place.position and not self._is_in_log(place, size):
            self.index.rebuild(self._scan(size))
            place = find(self.index)
        return place

    def _is_in_log(self, place: Place, size: int) -> bool:
        if place.position + HEADER_SIZE > size:
            return False
        try:
            return self.header_at(place.position).base_offset == self._base + place.relative_offset
        except KafkaError:
            return False

    def _sound_index(self, size: int) -> SegmentIndex:
        self.index.ensure_sound(lambda: self._scan(size))
        return self.index

    def _scan(self, size: int) -> IndexEntries:
        entries = IndexEntries(self.interval_bytes)
        end, largest = self._base, NO_TIMESTAMP
        for position, header, _ in walk(self.log.get(), 0, size, FAR_BYTES):
            if end <= header.base_offset <= self._base + RELATIVE_OFFSET_MAX:  # else it is damaged
                entries.on_batch(header.base_offset - self._base, position, largest)
                end = header.next_offset
            if header.record_count:
                largest = max(largest, header.max_timestamp)
        return entries


def _too_long(position: int) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {position} is longer than its segment")
