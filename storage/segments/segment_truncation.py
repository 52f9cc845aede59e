"""Truncates a segment without reading its beginning, so that removing a few batches is cheap.

The summary of the remaining segment is computed backwards, from the whole segment and the removed batches. Only the
largest timestamp needs a short walk, from the last index entry before the end.
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
"""How many of the removed bytes are checked for corruption. Usually a few batches are removed; if there are more,
checking them would block everything else."""
_POLYNOMIAL = 0x82F63B78
"""The polynomial of CRC-32C, with its bits in the order in which the algorithm uses them."""


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]
_BYTE_OF_HIGH = {entry >> 24: byte for byte, entry in enumerate(_TABLE)}
"""The index of each table entry, by the entry's high byte, which is unique."""


def checksum_before(checksum: int, end_checksum: int, end_bytes: int) -> int:
    """Returns the checksum of data without its end, from the checksums of all data and of the end alone."""
    # The difference is the checksum of the beginning followed by zeros. Undo the effect of each zero.
    state = checksum ^ end_checksum
    for _ in range(end_bytes):
        byte = _BYTE_OF_HIGH[state >> 24]
        state = (state ^ _TABLE[byte]) << 8 & 0xFFFFFFFF | byte
    return state


def summary_of_prefix(reader: SegmentReader, whole: SegmentSummary | SegmentFacts, size: int) -> SegmentSummary:
    """Returns the summary of the first `size` bytes of the segment, where a batch ends and another one begins.

    If a header among the removed batches is corrupt, the computation backwards is impossible: then the whole prefix is
    read, provided that it can prove itself. Otherwise raises KafkaError (CORRUPT_MESSAGE).
    """
    try:
        computed, is_plain = _computed_backwards(reader, whole, size)
    except KafkaError:
        found = _read_intact_prefix(reader, whole, size)
        if found is None:
            raise
        return found
    return computed if is_plain else _read_intact_prefix(reader, whole, size) or computed


def _read_intact_prefix(
    reader: SegmentReader, whole: SegmentSummary | SegmentFacts, size: int
) -> SegmentSummary | None:
    """Reads the whole prefix and returns its summary; None if the prefix does not prove that it is intact.

    It does so if each batch has the right checksum, all offsets follow each other without a gap, and no single batch
    has another epoch than the batches around it. Base offsets and epochs are all that checksums of batches do not
    cover.
    """
    summary = SegmentSummary(whole.base)
    before: int = NO_EPOCH
    # The number of last batches with the same epoch; `before` is the epoch of the batch before those.
    count = 0
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


def _computed_backwards(
    reader: SegmentReader, whole: SegmentSummary | SegmentFacts, size: int
) -> tuple[SegmentSummary, bool]:
    """Computes the summary of the prefix backwards, and returns it with whether the removed batches look intact."""
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
        # The first batch with a timestamp may be among the removed ones.
        headers = (header for _, header, _ in walk(file, 0, size, FAR_BYTES))
        timed = (header.max_timestamp for header in headers if header.max_timestamp != NO_TIMESTAMP)
        summary.first_timestamp = next(timed, NO_TIMESTAMP)
    return summary, is_plain and last.next_offset == first_gone.base_offset


class PreparedTruncation(NamedTuple):
    """A truncation for which everything is loaded and open, so that little can fail when it is applied."""

    segment: SealedSegment | OpenSegment
    beginning: SegmentSummary
    file: File

    def apply(self) -> OpenSegment:
        """Truncates the segment, and returns what remains as an open segment.

        The old object must not be used afterwards.
        """
        reader, size = self.segment.reader, self.beginning.size
        self.segment.close()
        self.file.truncate(size)
        reader.index.truncate(size)
        return OpenSegment(self.beginning, reader)


def prepare_truncation_before_damage(
    segment: SealedSegment | OpenSegment, offset: int, size: int
) -> PreparedTruncation | None:
    """Prepares the truncation of a segment at `offset`, before a damaged batch at position `size`.

    Returns None if the remaining batches do not prove that they are intact and end at `offset`.
    """
    reader = segment.reader
    whole = segment.facts if isinstance(segment, SealedSegment) else segment.summary
    beginning = _read_intact_prefix(reader, whole, size)
    if beginning is None or beginning.end != offset:
        return None
    reader.before_offset(offset - 1, size)  # the index is sound then
    return PreparedTruncation(segment, beginning, reader.log.get())


def prepare_truncation(segment: SealedSegment | OpenSegment, size: int) -> PreparedTruncation:
    """Prepares the truncation of a segment to `size` bytes. Nothing is changed yet."""
    whole = segment.facts if isinstance(segment, SealedSegment) else segment.summary
    return PreparedTruncation(segment, summary_of_prefix(segment.reader, whole, size), segment.reader.log.get())
