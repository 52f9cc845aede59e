"""The open segment of a log: appends, stamps, syncs and seals, and says when a batch needs a new segment."""

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
from tailrace.storage.manifest.manifest import AbortedFacts, SegmentFacts

from .batch_walk import walk
from .restamping import UnstampedTail, restamp
from .sealed_segment import SealedSegment
from .segment_reader import SegmentReader
from .segment_summary import SegmentSummary

POSITION_MAX = 2**32 - 1
"""The largest position that an index entry can have."""
_RECENT_MAX = 256
"""The number of recent batches whose positions are kept in memory."""


class OpenSegment:
    """The last segment of a log."""

    __slots__ = ("_last", "_recent", "_unstamped_tail", "ends_with_bridge", "reader", "summary")

    def __init__(self, summary: SegmentSummary, reader: SegmentReader, *, ends_with_bridge: bool = False) -> None:
        self.summary = summary
        self.reader = reader
        self._recent = array("Q")
        """Index entries for every one of the last batches, where nearly all reads begin and end."""
        self.ends_with_bridge = ends_with_bridge
        """Whether the last batch is a bridge, after which nothing may be appended to this segment."""
        self._unstamped_tail: UnstampedTail | None = None
        self._last: BatchHeader | None = None
        """The header of the last batch if it was appended by this object. A leader asks for it all the time."""

    @property
    def base(self) -> int:
        return self.summary.base

    @property
    def end(self) -> int:
        return self.summary.end

    @property
    def size(self) -> int:
        return self.summary.size

    # appending

    def has_room_for(self, header: BatchHeader, config: LogConfig) -> bool:
        """Returns whether the batch may be appended to this segment without rolling.

        An empty segment has room for any batch.
        """
        summary, index = self.summary, self.reader.index
        position = summary.size
        return position == 0 or (
            not self.ends_with_bridge
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
        """Returns whether the batch can be appended although the segment should be rolled."""
        summary = self.summary
        return (
            not self.ends_with_bridge
            and header.leader_epoch == summary.epoch
            and summary.size + header.batch_length + LOG_OVERHEAD <= POSITION_MAX
            and header.base_offset + header.last_offset_delta - summary.base <= RELATIVE_OFFSET_MAX
        )

    def room_for(self, headers: Sequence[BatchHeader], size: int, config: LogConfig) -> tuple[int, int]:
        """Returns how many of the batches, from the first one on, may be appended together, and their size.

        The appended batches are of one epoch, and only the last one may be a control batch of recovery. `size` is the
        size of all batches.
        """
        if self.ends_with_bridge:
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
            if header.attributes & CONTROL and header.producer_id < 0:
                # It may be a bridge, which ends the segment. A transaction marker has a producer.
                break
        return count, position - summary.size

    def _has_room_for_all(self, headers: Sequence[BatchHeader], size: int, config: LogConfig) -> bool:
        """Returns whether all batches certainly have room, without computing where each would begin.

        False means unknown: this counts one index entry per batch, and takes any control batch for a bridge.
        """
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
        """Writes the batches to the page cache. If that fails, the segment stays as it was.

        Several batches are of one epoch. They are accounted for as in `SegmentSummary.add`, but without a call per
        batch.
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
        """Stamps `epoch` on the batches that begin in [base, end), and returns how many had another epoch."""
        summary = self.summary
        stamped = await restamp(self.reader, summary, base, end, epoch, self._unstamped_tail)
        self._unstamped_tail = stamped.behind
        summary.checksum, summary.epoch = stamped.checksum, stamped.epoch
        self._last = None
        return stamped.count

    def correct_times(self, size: int, first: int, largest: int, entries: IndexEntries) -> None:
        """Corrects timestamps that were taken from damaged headers, and the index with them.

        `first`, `largest` and `entries` describe the first `size` bytes of the segment.
        """
        summary, reader = self.summary, self.reader
        for position, header, _ in walk(reader.log.get(), size, summary.size):
            entries.on_batch(header.base_offset - summary.base, position, largest)
            if first == NO_TIMESTAMP:
                first = header.max_timestamp
            if header.record_count:
                largest = max(largest, header.max_timestamp)
        summary.first_timestamp, summary.max_timestamp = first, largest
        with suppress(OSError):  # what does not fit on the disk now is rebuilt when it is needed
            reader.index.replace(entries)

    async def sync(self) -> None:
        await self.reader.log.get().sync()

    def seal(self, producers_checksum: int, aborted: AbortedFacts | None = None) -> SealedSegment:
        """Makes a sealed segment of this one, which must not be used afterwards."""
        return SealedSegment(self.facts(producers_checksum, aborted), self.reader, is_synced=False)

    def facts(self, producers_checksum: int, aborted: AbortedFacts | None = None) -> SegmentFacts:
        """Writes the whole index, and returns the facts about the segment for the manifest.

        If the disk has no room for the index, the facts do not match it, and the next opening rebuilds it.
        """
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
            epoch_starts=() if self.ends_with_bridge else None,
            aborted=aborted,
        )

    # reading

    def read(self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool) -> FileRange | None:
        """Returns the range of the batches from `offset` on, as `Log.read` describes."""
        summary = self.summary
        start = self.position_of(offset)
        stop = summary.size if up_to >= summary.end else self.position_of(up_to)
        if stop - start > bytes_max:
            return self._limited_range(start, stop, bytes_max, at_least_one=at_least_one)
        return FileRange(self.reader.log.get(), start, stop - start) if start < stop else None

    def headers(self, start: int, end: int) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        """Yields the headers of batches in [start, end), and the kind of the control batches that recovery wrote."""
        last = self._last
        if last is not None and start >= last.base_offset and not last.is_control:
            return iter(((last, None),) if last.next_offset > start and last.base_offset < end else ())
        return self.reader.headers(self.position_of(start), self.summary.size, end, self.summary.end)

    def position_of(self, offset: int) -> int:
        """Returns the position of the first batch that ends after the offset."""
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
        # A compacted leader replicates batches with gaps between them, and the offset may lie in a gap.
        header = self.reader.header_at(position)
        return position if offset < header.next_offset else position + header.size

    def _limited_range(self, start: int, stop: int, bytes_max: int, *, at_least_one: bool) -> FileRange | None:
        recent = self._recent
        if recent and offset_index.position_of(recent[0]) <= start:
            last = bisect_right(recent, start + bytes_max, key=offset_index.position_of) - 1
            stop = offset_index.position_of(recent[last])
            if stop == start and at_least_one:
                stop = offset_index.position_of(recent[last + 1]) if last + 1 < len(recent) else self.size
            return FileRange(self.reader.log.get(), start, stop - start)
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
