"""Batches for tests of storage: complete, with a valid checksum, ready to be appended."""

from struct import pack_into

from tailrace.protocol.batches.record_batch import HEADER_SIZE, BatchHeader, crc_of, read_header

HEADER = ">qiibIhiqqqhii"


def make_batch(
    base_offset: int, record_count: int = 1, *, size: int = 100, timestamp: int = 0, epoch: int = 0
) -> bytearray:
    """Makes a batch with a valid header, whose records are random bytes."""
    size = max(size, HEADER_SIZE)
    batch = bytearray(HEADER_SIZE)
    pack_into(
        HEADER, batch, 0, base_offset, size - 12, epoch, 2, 0, 0, record_count - 1, timestamp, timestamp, -1, -1, -1,
        record_count,
    )  # fmt: skip
    batch += bytes((base_offset * 31 + index) % 251 for index in range(size - HEADER_SIZE))
    pack_into(">I", batch, 17, crc_of(batch, 0, size))
    return batch


def header_of(batch: bytes | bytearray) -> BatchHeader:
    return read_header(batch)
