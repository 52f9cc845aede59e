"""The one writable segment of a log: append, sync, seal."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress

from crc32c import crc32c

from tailrace.protocol.batches.control_batches import ControlKind
from tailrace.protocol.batches.record_batch import CONTROL, CRC_START, LOG_OVERHEAD, BatchHeader
from tailrace.protocol.ids import NO_EPOCH
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer
from tailrace.storage.indexes import offset_index
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.indexes.offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX
from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import SegmentFacts

from .batch_walk import walk
from .restamping import Behind, restamp
from .sealed_segment import SealedSegment
from .segment_reader import SegmentReader
from .segment_summary import SegmentSummary

POSITION_MAX = 2**32 - 1
"""In an entry of the index."""
_RECENT_MAX = 256


class OpenSegment:
    __slots__ = ("_behind_stamped", "_last", "_recent", "is_over", "reader", "summary")

    def __init__(self, summary: SegmentSummary, reader: SegmentReader, *, is_over: bool = False) -> None:
        self.summary = summary
        self.reader = reader
        self._recent = array("Q")
        """Entries as in the index, but for every one of the last batches: where nearly all reads begin and end."""
        self.is_over = is_over
        """A bridge ends it: nothing more may be appended."""
        self._behind_stamped: Behind | None = None
        self._last: BatchHeader | None = None
        """Of the last batch, if it was appended here: a leader asks for it again and again."""

    @property
    def base(self) -> int:
        return self.summary.base

    @property
    def end(self) -> int:
        return self.summary.end

    @property
    def size(self) -> int:
        return self.summary.size

    # growing

    def has_room_for(self, header: BatchHeader, config: LogConfig) -> bool:
        """Whether the batch may go into this segment; into an empty one it always may."""
        summary, index = self.summary, self.reader.index
        position = summary.size
        return position == 0 or (
            not self.is_over
            and position + header.batch_length + LOG_OVERHEAD <= config.segment_bytes_max
            and header.leader_epoch == summary.epoch
            and (
                header.max_timestamp - summary.first_timestamp <= config.segment_age_ms_max
                or summary.first_timestamp == NO_TIMESTAMP
            )
            and header.base_offset + header.last_offset_delta - summary.base <= RELATIVE_OFFSET_MAX
            and (position < index.new.next_position or len(index) * ENTRY_BYTES < config.index_bytes_max)
        )

    def can_grow(self, header: BatchHeader) -> bool:
        """Whether the batch can go into this segment although its time to end has come."""
        summary = self.summary
        return (
            not self.is_over
            and header.leader_epoch == summary.epoch
            and summary.size + header.batch_length + LOG_OVERHEAD <= POSITION_MAX
            and header.base_offset + header.last_offset_delta - summary.base <= RELATIVE_OFFSET_MAX
        )

    def room_for(self, headers: Sequence[BatchHeader], size: int, config: LogConfig) -> tuple[int, int]:
        """How many of these batches, which take so many bytes, may go into this segment together, from the first one
        on, and the bytes of those: they are of one epoch, and none but the last is a control batch."""
        if self.is_over:
            return 0, 0
        if self._has_room_for_all(headers, size, config):
            return len(headers), size
        summary, index = self.summary, self.reader.index
        position, first_timestamp, next_position = summary.size, summary.first_timestamp, index.new.next_position
        epoch = summary.epoch if position else headers[0].leader_epoch
        bytes_max, age_ms_max = config.segment_bytes_max, config.segment_age_ms_max
        last_offset_max = summary.base + RELATIVE_OFFSET_MAX
        count = new_entries = 0
        for header in headers:
            if position >= next_position:
                if position and (len(index) + new_entries) * ENTRY_BYTES >= config.index_bytes_max:
                    break
                next_position = position + max(1, index.new.interval_bytes)
                new_entries += 1
            timestamp = header.max_timestamp
            if first_timestamp == NO_TIMESTAMP:
                first_timestamp = timestamp
            end = position + header.batch_length + LOG_OVERHEAD
            if position and (
                end > bytes_max
                or header.leader_epoch != epoch
                or timestamp - first_timestamp > age_ms_max
                or header.base_offset + header.last_offset_delta > last_offset_max
            ):
                break
            position = end
            count += 1
            if header.attributes & CONTROL:
                # It may be a bridge, which would be the last one.
                break
        return count, position - summary.size

    def _has_room_for_all(self, headers: Sequence[BatchHeader], size: int, config: LogConfig) -> bool:
        """Whether that is plain without a look at where each of them would begin. If not, they may all have room yet:
        the index is taken to need an entry for each, and a control batch to be one that ends the segment."""
        summary, last = self.summary, headers[-1]
        if (
            summary.first_timestamp == NO_TIMESTAMP
            or summary.size + size > config.segment_bytes_max
            or last.base_offset + last.last_offset_delta - summary.base > RELATIVE_OFFSET_MAX
            or (len(self.reader.index) + len(headers)) * ENTRY_BYTES > config.index_bytes_max
        ):
            return False
        epoch, newest = summary.epoch, summary.first_timestamp + config.segment_age_ms_max
        for header in headers:
            if header.leader_epoch != epoch or header.max_timestamp > newest or header.attributes & CONTROL:
                return False
        return True

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Writes the batches into the page cache, at once; when that fails the segment is as it was before.

        More than one are of one epoch. They are noted as `SegmentSummary.add` does it, and without a call for each.
        """
        summary, index, recent = self.summary, self.reader.index, self._recent
        base, start, entries = summary.base, summary.size, index.new
        if start >= entries.next_position and index.wants_write:
            index.write()
            entries = index.new
        file = self.reader.log.get()
        try:
            file.append(data)
        except OSError:
            file.truncate(start)
            raise
        position, next_position, max_timestamp = start, entries.next_position, summary.max_timestamp
        beginnings = []
        for header in headers:
            if position >= next_position:
                entries.on_batch(header.base_offset - base, position, max_timestamp)
                next_position = entries.next_position
            recent.append(header.base_offset - base << 32 | position)
            at = position - start
            beginnings.append(data[at : at + CRC_START])
            if header.max_timestamp > max_timestamp and header.record_count:
                max_timestamp = header.max_timestamp
            position += header.batch_length + LOG_OVERHEAD
        if summary.first_timestamp == NO_TIMESTAMP:
            timestamps = (each.max_timestamp for each in headers)
            summary.first_timestamp = next((each for each in timestamps if each != NO_TIMESTAMP), NO_TIMESTAMP)
        summary.epoch = header.leader_epoch
        summary.end = header.base_offset + header.last_offset_delta + 1
        summary.size, summary.max_timestamp = position, max_timestamp
        summary.checksum = crc32c(b"".join(beginnings), summary.checksum)
        if len(recent) > _RECENT_MAX:
            del recent[: -_RECENT_MAX // 2]
        self._last = header

    async def restamp(self, base: int, end: int, epoch: int) -> int:
        """Returns how many batches now have another epoch."""
        summary = self.summary
        stamped = await restamp(self.reader, summary, base, end, epoch, self._behind_stamped)
        self._behind_stamped = stamped.behind
        summary.checksum, summary.epoch = stamped.checksum, stamped.epoch
        self._last = None
        return stamped.count

    def correct_times(self, size: int, first: int, largest: int, entries: IndexEntries) -> None:
        """Of so much of it, with its index. What was noted of them came from headers that were damaged then."""
        summary, reader = self.summary, self.reader
        for position, header, _ in walk(reader.log.get(), size, summary.size):
            entries.on_batch(header.base_offset - summary.base, position, largest)
            if first == NO_TIMESTAMP:
                first = header.max_timestamp
            if header.record_count:
                largest = max(largest, header.max_timestamp)
        summary.first_timestamp, summary.max_timestamp = first, largest
        with suppress(OSError):  # what does not fit on the disk now is there the next time
            reader.index.replace(entries)

    async def sync(self) -> None:
        await self.reader.log.get().sync()

    def seal(self, producers_checksum: int) -> SealedSegment:
        """Nothing is appended afterwards; this object is done with."""
        return SealedSegment(self.facts(producers_checksum), self.reader, is_synced=False)

    def facts(self, producers_checksum: int) -> SegmentFacts:
        """As it lies on the disk; puts the whole index there. If that has no room, whoever opens the segment next
        builds another one: what is said of it here is not what he finds."""
        summary, index = self.summary, self.reader.index
        with suppress(OSError):
            index.write()
        return SegmentFacts(
            base=summary.base,
            end=summary.end,
            epoch=summary.epoch,
            size=summary.size,
            checksum=summary.checksum,
            first_timestamp=summary.first_timestamp,
            max_timestamp=summary.max_timestamp,
            index_entries=len(index),
            index_checksum=index.checksum,
            time_index_checksum=index.time_checksum,
            last_indexed_position=index.last_position,
            producers_checksum=producers_checksum,
            epoch_starts=() if self.is_over else None,
        )

    # reading

    def read(self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool) -> FileRange | None:
        summary = self.summary
        start = self.position_of(offset)
        stop = summary.size if up_to >= summary.end else self.position_of(up_to)
        if stop - start > bytes_max:
            return self._cut_range(start, stop, bytes_max, at_least_one=at_least_one)
        return FileRange(self.reader.log.get(), start, stop - start) if start < stop else None

    def headers(self, start: int, end: int) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        last = self._last
        if last is not None and start >= last.base_offset and not last.is_control:
            return iter(((last, None),) if last.next_offset > start and last.base_offset < end else ())
        return self.reader.headers(self.position_of(start), self.summary.size, end, self.summary.end)

    def position_of(self, offset: int) -> int:
        """Where the first batch starts that does not end before the offset."""
        summary, recent = self.summary, self._recent
        if offset >= summary.end:
            return summary.size
        relative_offset = max(0, offset - summary.base)
        index = offset_index.last_at_or_before(recent, relative_offset)
        if index < 0:
            return self.reader.position_of(offset, summary.size)
        position = offset_index.position_of(recent[index])
        if index + 1 == len(recent) or relative_offset == offset_index.relative_offset_of(recent[index]):
            return position
        # A leader that has compacted hands on batches with gaps between them: the offset may lie in one.
        header = self.reader.header_at(position)
        return position if offset < header.next_offset else position + header.size

    def _cut_range(self, start: int, stop: int, bytes_max: int, *, at_least_one: bool) -> FileRange | None:
        recent = self._recent
        if recent and offset_index.position_of(recent[0]) <= start:
            last = bisect_right(recent, start + bytes_max, key=offset_index.position_of) - 1
            cut = offset_index.position_of(recent[last])
            if cut == start and at_least_one:
                cut = offset_index.position_of(recent[last + 1]) if last + 1 < len(recent) else self.size
            return FileRange(self.reader.log.get(), start, cut - start)
        return self.reader.range(start, stop, bytes_max, at_least_one=at_least_one)

    def find_timestamp(self, timestamp_ms: int, from_offset: int, up_to: int) -> tuple[int, int, int] | None:
        if self.summary.max_timestamp < timestamp_ms:
            return None
        return self.reader.find_timestamp(timestamp_ms, from_offset, up_to, self.summary.size)

    def max_timestamp(self, from_offset: int, up_to: int) -> int:
        if from_offset <= self.summary.base and up_to >= self.summary.end:
            return self.summary.max_timestamp
        return self.reader.max_timestamp(from_offset, up_to, self.summary.size)

    @property
    def is_empty(self) -> bool:
        return self.summary.size == 0

    @property
    def epoch(self) -> int:
        return self.summary.epoch if self.summary.size else NO_EPOCH

    def close(self) -> None:
        self.reader.log.close()
        self.reader.index.close()
