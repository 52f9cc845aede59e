"""Finds batches and records in one segment, open or sealed, through its index."""

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
    """`size` is always how much of the file may be looked at: an open segment grows meanwhile."""

    __slots__ = ("_base", "index", "interval_bytes", "log")

    def __init__(self, base: int, log: LazyFile, index: SegmentIndex, interval_bytes: int) -> None:
        self._base = base
        self.log = log
        self.index = index
        self.interval_bytes = interval_bytes

    def range(self, start: int, stop: int, bytes_max: int, *, at_least_one: bool) -> FileRange | None:
        """The whole batches from `start` on that end by `stop` and fit in `bytes_max`; a large first one if need be.

        None when there are no batches between; an empty range when the first is too large.
        """
        if start >= stop:
            return None
        file = self.log.get()
        if stop - start > bytes_max:
            cut = self.boundary(start, start + bytes_max, stop)
            if cut == start and at_least_one:
                cut = start + self.header_at(start).size
            stop = cut
        return FileRange(file, start, stop - start)

    def position_of(self, offset: int, size: int) -> int:
        """Where the first batch starts that does not end before the offset; `size` if all do.

        KafkaError (CORRUPT_MESSAGE) where a header on the way is damaged: whoever reads on must not miss what follows.
        """
        file = self.log.looked_up()
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
            # Compaction has left a gap behind it, or it does not say any more where it ends.
            start = end - passed.size
            if crc_of(file.read_at(start, passed.size), 0, passed.size) != passed.crc:
                return start
            if not is_in_place:
                # It would follow, and perhaps hold the offset, were it not for its own: no checksum covers that.
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {start} is out of place")
        return end

    def header_at(self, position: int) -> BatchHeader:
        return read_header(self.log.get().read_at(position, HEADER_SIZE))

    def before_offset(self, offset: int, size: int) -> Place:
        """A batch starts there that lies at or before the offset, and not far before."""
        relative_offset = max(0, offset - self._base)
        return self._find(lambda index: index.before_offset(relative_offset), size)

    def headers(
        self, position: int, size: int, up_to: int, segment_end: int
    ) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        """Of the batches from the position on that begin before the offset, and what recovery wrote among them.

        KafkaError (CORRUPT_MESSAGE) where one is damaged, or lies behind the segment: what follows would seem to be
        missing.
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
        """The end of the last whole batch from `start` on that ends by `limit`; `start` when not even one does."""
        boundary = max(start, self._find(lambda index: index.up_to_position(limit), size).position)
        for position, header, _ in walk(self.log.looked_up(), boundary, size):
            if position + header.size > limit:
                break
            boundary = position + header.size
        return boundary

    def find_timestamp(self, timestamp_ms: int, from_offset: int, up_to: int, size: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record in [from_offset, up_to) at or after the time."""
        file = self.log.get()
        # What is deleted, or asked of another segment, is not walked through, however much it is.
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
        """The largest timestamp of the records in [from_offset, up_to); NO_TIMESTAMP when there are none."""
        file, largest = self.log.get(), NO_TIMESTAMP
        _, near, before = self.before_offset(from_offset, size)
        _, end, newest = self.before_offset(up_to, size)
        for position, header, _ in walk(file, near, end, FAR_BYTES):
            if header.base_offset >= from_offset and (newest > before or newest == largest):
                largest = newest  # the index says what is between, where it is not something older
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
        """That, or the largest timestamp of the batch's records in [from_offset, up_to)."""
        if header.max_timestamp <= largest or header.last_offset < from_offset:
            return largest
        if from_offset <= header.base_offset and header.last_offset < up_to:
            return header.max_timestamp
        within = (time for offset, time in self._times(position, header) if from_offset <= offset < up_to)
        return max(largest, max(within, default=largest))

    def _times(self, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of each record of the batch: there may be millions, and nobody needs all at once."""
        batch = self.log.get().read_at(position, header.size)
        for offset_delta, delta in record_times(open_body(batch, header), header.record_count):
            time = header.max_timestamp if header.is_log_append_time else header.timestamp_at(delta)
            yield header.base_offset + offset_delta, time

    def _find(self, find: Callable[[SegmentIndex], Place], size: int) -> Place:
        """By the index, which is built again if the log shows that its bits have flipped since it was read."""
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
