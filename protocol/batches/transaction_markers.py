"""Transaction markers: the control batches that commit or abort the open transaction of a producer in one partition.

They are Kafka's own, byte for byte, so that Kafka's clients find the ends of transactions. A marker has a producer and
a timestamp, unlike the control batches that recovery writes: see `control_batches`. The producer tells them apart.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.ids import Epoch

from .record_batch import CONTROL, HEADER_SIZE, MAGIC, TRANSACTIONAL, BatchHeader, assemble

MARKER_ATTRIBUTES = CONTROL | TRANSACTIONAL
"""The attributes that every marker has, and no other batch of ours has."""


class MarkerKind(IntEnum):
    """The control type in the key of a marker's record. The values are Kafka's."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """What the record of a marker says."""

    is_commit: bool
    coordinator_epoch: int
    """The epoch of the transaction coordinator that decided the end of the transaction."""


_VERSION = 0
_CONTENT = struct.Struct(">BhhBhiB")
"""The key of a record, its value and its headers: two sizes, version and kind, version and epoch, and no headers."""
_KEY_SIZE = 4 << 1
_VALUE_SIZE = 6 << 1
_NO_HEADERS = 0
_RECORD_START = bytes((0, 0, 0))
"""The attributes of the record and its differences to the timestamp and the offset of the batch."""
_RECORD_SIZE = len(_RECORD_START) + _CONTENT.size
_VARLONG_BYTES_MAX = 10
MARKER_BYTES_MAX = HEADER_SIZE + 1 + _RECORD_SIZE + _VARLONG_BYTES_MAX
"""How many bytes of a batch are enough to read a marker."""


def marker_batch(
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    *,
    is_commit: bool,
    coordinator_epoch: int,
    now_ms: int,
) -> bytearray:
    """Makes the batch that ends the open transaction of a producer."""
    kind = MarkerKind.COMMIT if is_commit else MarkerKind.ABORT
    content = _CONTENT.pack(_KEY_SIZE, _VERSION, kind, _VALUE_SIZE, _VERSION, coordinator_epoch, _NO_HEADERS)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=Epoch(leader_epoch),
        magic=MAGIC,
        crc=0,
        attributes=MARKER_ATTRIBUTES,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        record_count=1,
    )
    return assemble(header, bytes((_RECORD_SIZE << 1,)) + _RECORD_START + content)


def is_marker(header: BatchHeader) -> bool:
    """Returns whether a batch with this header is a transaction marker. Compaction may have removed its record."""
    return header.attributes & MARKER_ATTRIBUTES == MARKER_ATTRIBUTES and header.producer_id >= 0


def marker_of(header: BatchHeader, batch: Buffer, position: int = 0) -> Marker | None:
    """Reads the marker at a position of the buffer.

    Returns None for other batches, such as data, holes and bridges, and for a marker without its record.
    """
    if not is_marker(header) or header.record_count != 1 or len(batch) - position < header.size:
        return None
    start = position + HEADER_SIZE + 1 + 1  # after the size and the attributes of the record
    end = position + header.size
    while start < end and batch[start] >= 0x80:  # compaction changes the timestamp of the batch, and so the difference
        start += 1
    start += 2  # after the rest of the timestamp, and the offset
    if start + _CONTENT.size > end:
        return None
    key_size, _, kind, value_size, _, coordinator_epoch, _ = _CONTENT.unpack_from(batch, start)
    if key_size != _KEY_SIZE or value_size < _VALUE_SIZE or kind not in (MarkerKind.ABORT, MarkerKind.COMMIT):
        return None
    return Marker(kind == MarkerKind.COMMIT, coordinator_epoch)
