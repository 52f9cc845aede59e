"""What is known of a segment as a whole, kept up to date batch by batch: while appending and while scanning."""

from crc32c import crc32c

from tailrace.protocol.batches.record_batch import CRC_START, LOG_OVERHEAD, BatchHeader
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.indexes.time_index import NO_TIMESTAMP


class SegmentSummary:
    __slots__ = ("base", "checksum", "end", "epoch", "first_timestamp", "max_timestamp", "size")

    def __init__(self, base: int) -> None:
        self.base = base
        self.end = base
        """Exclusive."""
        self.epoch: int = NO_EPOCH
        """The leader epoch of its last batch, and of all others, unless recovery has stamped some; NO_EPOCH without."""
        self.size = 0
        self.checksum = 0
        """CRC-32C of the first 21 bytes of every batch, one after the other.

        Those are the bytes that a batch's own checksum leaves out, and that checksum itself: together they cover every
        bit of the segment, at the same small cost for a large batch as for a small one.
        """
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP

    def add(self, data: Buffer, header: BatchHeader) -> None:
        """The next batch, or at least its header's bytes. An open segment does the same for several at once."""
        self.epoch = header.leader_epoch
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = header.max_timestamp
        self.checksum = crc32c(data[:CRC_START], self.checksum)
        self.size += header.batch_length + LOG_OVERHEAD
        self.end = header.base_offset + header.last_offset_delta + 1
        # A batch that compaction has emptied has a time to age by, but no record of that time.
        if header.max_timestamp > self.max_timestamp and header.record_count:
            self.max_timestamp = header.max_timestamp

    def refuses(self, header: BatchHeader) -> str | None:
        """Why the batch cannot be the next one of this segment; None when it can."""
        if header.base_offset < self.end:
            return f"offset {header.base_offset} comes after offset {self.end - 1}"
        if header.last_offset - self.base > RELATIVE_OFFSET_MAX:
            return f"offset {header.last_offset} is too far from the segment's base"
        return None
