"""The summary of a segment, kept up to date batch by batch while appending and while scanning."""

from crc32c import crc32c

from tailrace.protocol.batches.record_batch import CRC_START, LOG_OVERHEAD, BatchHeader
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.indexes.time_index import NO_TIMESTAMP


class SegmentSummary:
    """Size, offsets, checksum, epoch and timestamps of a segment."""

    __slots__ = ("base", "checksum", "end", "epoch", "first_timestamp", "max_timestamp", "size")

    def __init__(self, base: int) -> None:
        self.base = base
        self.end = base
        """The offset after the last record."""
        self.epoch: int = NO_EPOCH
        """The leader epoch of the last batch, and of all others unless recovery has stamped some; NO_EPOCH for an
        empty segment."""
        self.size = 0
        self.checksum = 0
        """The CRC-32C over the first 21 bytes of every batch.

        These are the bytes that a batch's own checksum does not cover, and that checksum itself. Together they cover
        every bit of the segment, and cost the same for a large batch as for a small one.
        """
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP

    def add(self, data: Buffer, header: BatchHeader) -> None:
        """Adds the next batch, given at least the bytes of its header.

        `OpenSegment.append` does the same for several batches.
        """
        self.epoch = header.leader_epoch
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = header.max_timestamp
        self.checksum = crc32c(data[:CRC_START], self.checksum)
        self.size += header.batch_length + LOG_OVERHEAD
        self.end = header.base_offset + header.last_offset_delta + 1
        # A batch that compaction has emptied keeps a timestamp by which it ages, but has no record with that timestamp.
        if header.max_timestamp > self.max_timestamp and header.record_count:
            self.max_timestamp = header.max_timestamp

    def refuses(self, header: BatchHeader) -> str | None:
        """Returns why the batch cannot be the next one of this segment; None if it can."""
        if header.base_offset < self.end:
            return f"offset {header.base_offset} comes after offset {self.end - 1}"
        if header.last_offset - self.base > RELATIVE_OFFSET_MAX:
            return f"offset {header.last_offset} is too far from the segment's base"
        return None
