"""Builds record batches for raw requests with kafka-python's encoder, and corrupts them where a test needs it."""

import struct
from collections.abc import Iterable

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

CRC_POSITION = 17
AFTER_CRC = 21


def build_batch(
    values: Iterable[bytes], *, producer: tuple[int, int, int] = (-1, -1, -1), timestamp_ms: int = 1_700_000_000_000
) -> bytes:
    """Builds one batch of magic 2; `producer` is its producer id, epoch and base sequence."""
    producer_id, epoch, sequence = producer
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 24,
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp_ms + offset, None, value, [])
    return bytes(builder.build())


def with_right_crc(batch: bytes) -> bytes:
    """Returns the batch with a correct checksum, so that a corrupted field is the only error in it."""
    return batch[:CRC_POSITION] + struct.pack(">I", crc32c(batch[AFTER_CRC:])) + batch[AFTER_CRC:]


def patched(batch: bytes, position: int, layout: str, value: int) -> bytes:
    """Returns the batch with one field overwritten and the checksum corrected."""
    spoilt = bytearray(batch)
    struct.pack_into(layout, spoilt, position, value)
    return with_right_crc(bytes(spoilt))
