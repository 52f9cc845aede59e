"""The one writable segment of a log: append, sync, seal."""

from array import array
from bisect import bisect_right

from tailrace.protocol.ids import NO_EPOCH
from tailrace.protocol.record_batch import BatchHeader
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer

from . import offset_index
from .log_config import LogConfig
from .manifest import SegmentFacts
from .offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX
from .sealed_segment import SealedSegment
from .segment_reader import SegmentReader
from .segment_summary import SegmentSummary

_RECENT_MAX = 256


class OpenSegment:
    __slots__ = ("_recent", "reader", "summary")

    def __init__(self, summary: SegmentSummary, reader: SegmentReader) -> None:
        self.summary = summary
        self.reader = reader
        self._recent = array("Q")
        """Entries as in the index, but for every one of the last batches: where nearly all reads begin and end."""

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
            position + header.batch_length + 12 <= config.segment_bytes_max
            and header.leader_epoch == summary.epoch
            and header.max_timestamp - summary.first_timestamp <= config.segment_age_ms_max
            and header.base_offset + header.last_offset_delta - summary.base <= RELATIVE_OFFSET_MAX
            and (position < index.new.next_position or len(index) * ENTRY_BYTES < config.index_bytes_max)
        )

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Writes the batch into the page cache; when that fails the segment is as it was before."""
        reader, summary = self.reader, self.summary
        index = reader.index
        position = summary.size
        indexed = position >= index.new.next_position
        if indexed and index.wants_write:
            index.write()
        file = reader.log.get()
        try:
            file.append(batch)
        except OSError:
            file.truncate(position)
            raise
        relative_offset = header.base_offset - summary.base
        if indexed:
            index.on_batch(relative_offset, position, summary.max_timestamp)
        recent = self._recent
        recent.append(relative_offset << 32 | position)
        if len(recent) > _RECENT_MAX:
            del recent[: _RECENT_MAX // 2]
        summary.add(batch, header)

    async def sync(self) -> None:
        await self.reader.log.get().sync()

    def seal(self, producers_checksum: int) -> SealedSegment:
        """Nothing is appended afterwards; this object is done with."""
        return SealedSegment(self.facts(producers_checksum), self.reader, is_synced=False)

    def facts(self, producers_checksum: int) -> SegmentFacts:
        """As it lies on the disk; puts the whole index there."""
        summary, index = self.summary, self.reader.index
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
        )

    # reading

    def read(self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool) -> FileRange | None:
        summary = self.summary
        start = self.position_of(offset)
        stop = summary.size if up_to >= summary.end else self.position_of(up_to)
        if stop - start > bytes_max:
            return self._cut_range(start, stop, bytes_max, at_least_one=at_least_one)
        return FileRange(self.reader.log.get(), start, stop - start) if start < stop else None

    def position_of(self, offset: int) -> int:
        """Where the batch that holds the offset starts."""
        summary, recent = self.summary, self._recent
        if offset >= summary.end:
            return summary.size
        index = offset_index.last_at_or_before(recent, max(0, offset - summary.base))
        if index >= 0:
            return offset_index.position_of(recent[index])
        return self.reader.position_of(offset, summary.size)

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
