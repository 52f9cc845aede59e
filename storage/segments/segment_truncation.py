"""Cuts the end off a segment without reading its beginning: a follower that has to cut a few batches must not stop to
walk through a gigabyte of others.

What is known of the segment as a whole is taken back by the few batches that go. Only for the largest timestamp one
walks a little, from the last index entry before the cut.
"""

from typing import NamedTuple

import crc32c

from tailrace.protocol.batches.record_batch import CRC_START, BatchHeader, crc_of
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH
from tailrace.runtime.files import File
from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.manifest.manifest import SegmentFacts

from .batch_scan import BatchScan
from .batch_walk import FAR_BYTES, walk
from .open_segment import OpenSegment
from .sealed_segment import SealedSegment
from .segment_reader import SegmentReader
from .segment_summary import SegmentSummary

CHECKED_BYTES_MAX = 4 * 2**20
"""Of what goes, whether it is what was written: mostly it is all a few batches, and else everybody waits."""
_POLYNOMIAL = 0x82F63B78
"""Of CRC-32C, its bits in the order in which the algorithm takes them."""


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]
_BYTE_OF_HIGH = {entry >> 24: byte for byte, entry in enumerate(_TABLE)}
"""The high byte of an entry tells which one it is."""


def checksum_before(checksum: int, end_checksum: int, end_bytes: int) -> int:
    """Of the beginning, when all has `checksum` and its last bytes have `end_checksum` by themselves."""
    # What is left is the checksum of the beginning, pushed on by so many zeros: they are pulled out again.
    state = checksum ^ end_checksum
    for _ in range(end_bytes):
        byte = _BYTE_OF_HIGH[state >> 24]
        state = (state ^ _TABLE[byte]) << 8 & 0xFFFFFFFF | byte
    return state


def beginning_of(reader: SegmentReader, whole: SegmentSummary | SegmentFacts, size: int) -> SegmentSummary:
    """Of the first `size` bytes of the segment. They end where a batch ends; there is one before and one behind.

    Where a header has flipped in what goes, that does not tell of what is left: then all that is left is read, if it
    can show by itself what it is. KafkaError (CORRUPT_MESSAGE) where nothing tells."""
    try:
        taken_back, is_plain = _taken_back(reader, whole, size)
    except KafkaError:
        shown = _as_it_shows_itself(reader, whole, size)
        if shown is None:
            raise
        return shown
    return taken_back if is_plain else _as_it_shows_itself(reader, whole, size) or taken_back


def _as_it_shows_itself(
    reader: SegmentReader, whole: SegmentSummary | SegmentFacts, size: int
) -> SegmentSummary | None:
    """If each batch has its checksum, their offsets follow from each other, and no single one has another epoch than
    those around it: that is all that no checksum of a batch covers."""
    summary = SegmentSummary(whole.base)
    before: int = NO_EPOCH
    count = 0
    """Of the same epoch as the last one; and `before` them others were of that."""
    for batch in BatchScan(reader.log.get(), size):
        header = batch.header
        if not batch.checksum_matches or header.base_offset != summary.end:
            return None
        if header.leader_epoch == summary.epoch:
            count += 1
        elif count == 1 and header.leader_epoch == before:
            return None
        else:
            before, count = summary.epoch, 1
        summary.add(batch.start, header)
    return summary if summary.size == size else None


def _taken_back(reader: SegmentReader, whole: SegmentSummary | SegmentFacts, size: int) -> tuple[SegmentSummary, bool]:
    """And whether what goes looks as it was written."""
    file = reader.log.get()
    end_checksum = count = 0
    first_gone: BatchHeader | None = None
    end, end_offset, is_plain = size, whole.end, True
    for position, header, start in walk(file, size, whole.size):
        end_checksum = crc32c.crc32c(start[:CRC_START], end_checksum)
        count += 1
        follows = first_gone is None or header.base_offset == end_offset
        is_plain = is_plain and follows and header.leader_epoch == whole.epoch
        if is_plain and position - size + header.size <= CHECKED_BYTES_MAX:
            is_plain = crc_of(file.read_at(position, header.size), 0, header.size) == header.crc
        end, end_offset = position + header.size, header.next_offset
        first_gone = first_gone or header
    if first_gone is None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {size} is longer than its segment")
    is_plain = is_plain and (end, end_offset) == (whole.size, whole.end)
    _, near, largest = reader.before_offset(first_gone.base_offset - 1, whole.size)
    last: BatchHeader | None = None
    for _, header, _ in walk(file, near, size):
        largest = max(largest, header.max_timestamp if header.record_count else NO_TIMESTAMP)
        last = header
    if last is None or last.next_offset > first_gone.base_offset:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batches before and behind position {size} are out of order")
    summary = SegmentSummary(whole.base)
    summary.size = size
    summary.end = last.next_offset
    summary.epoch = last.leader_epoch
    summary.checksum = checksum_before(whole.checksum, end_checksum, count * CRC_START)
    summary.max_timestamp = largest
    summary.first_timestamp = whole.first_timestamp
    if largest == NO_TIMESTAMP:
        # The first batch that has a time may be one of those that go.
        headers = (header for _, header, _ in walk(file, 0, size, FAR_BYTES))
        timed = (header.max_timestamp for header in headers if header.max_timestamp != NO_TIMESTAMP)
        summary.first_timestamp = next(timed, NO_TIMESTAMP)
    return summary, is_plain and last.next_offset == first_gone.base_offset


class PreparedCut(NamedTuple):
    """All is known, and all is open, of which the cut has need."""

    segment: SealedSegment | OpenSegment
    beginning: SegmentSummary
    file: File

    def carry_out(self) -> OpenSegment:
        """The beginning goes on as an open segment; the one before is done with."""
        reader, size = self.segment.reader, self.beginning.size
        self.segment.close()
        self.file.truncate(size)
        reader.index.cut(size)
        return OpenSegment(self.beginning, reader)


def prepare_cut_of_damaged(segment: SealedSegment | OpenSegment, offset: int, size: int) -> PreparedCut | None:
    """So that it ends at the offset, before a batch that is damaged. None: what is left does not show by itself that it
    is what it was, and goes that far."""
    reader = segment.reader
    whole = segment.facts if isinstance(segment, SealedSegment) else segment.summary
    beginning = _as_it_shows_itself(reader, whole, size)
    if beginning is None or beginning.end != offset:
        return None
    reader.before_offset(offset - 1, size)  # the index is sound then
    return PreparedCut(segment, beginning, reader.log.get())


def prepare_cut(segment: SealedSegment | OpenSegment, size: int) -> PreparedCut:
    """So that the segment ends there. Nothing is changed yet."""
    whole = segment.facts if isinstance(segment, SealedSegment) else segment.summary
    return PreparedCut(segment, beginning_of(segment.reader, whole, size), segment.reader.log.get())
