"""The control batches that recovery writes: holes and bridges.

A hole covers offsets for which no store has a record. A bridge ends the part of a log that was recovered. Kafka's
clients skip control batches of an unknown type, and continue after them. Holes and bridges have no timestamp, and
everything under their checksum follows from their offsets and, for a bridge, its epoch. So two leaders that write the
same hole or bridge write the same bytes, except for the epoch that is stamped outside the checksum.
"""

import struct
from enum import IntEnum

from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.ids import Epoch

from .record_batch import CONTROL, HEADER_SIZE, MAGIC, BatchHeader, assemble

_NO_TIMESTAMP = -1
_NO_PRODUCER = -1


class ControlKind(IntEnum):
    """The control type in the record's key. Kafka counts its own types from 0, far from these."""

    HOLE = 0x7448
    BRIDGE = 0x7442


HOLE_OFFSETS_MAX = 2**31
"""The largest hole in one batch: a batch counts its offsets in 31 bits, so that a larger hole takes several batches."""

# A control batch has one record. Its attributes, timestamp delta, offset delta and key length are always the same. So
# the key is always at the same position, and can be read without decoding the record.
_RECORD_START = bytes((0, 0, 0, 4 << 1))
_KEY = struct.Struct(">hh")
_HOLE_VALUE = struct.Struct(">h")
_BRIDGE_VALUE = struct.Struct(">hi")
_VERSION = 0
_NO_HEADERS = b"\x00"
_RECORD_POSITION = HEADER_SIZE + 1
_KEY_POSITION = _RECORD_POSITION + len(_RECORD_START)
_VALUE_POSITION = _KEY_POSITION + _KEY.size + 1

_KIND_OF_SIZE = {
    _VALUE_POSITION + _HOLE_VALUE.size + len(_NO_HEADERS): ControlKind.HOLE,
    _VALUE_POSITION + _BRIDGE_VALUE.size + len(_NO_HEADERS): ControlKind.BRIDGE,
}

CONTROL_BATCH_BYTES_MAX = max(_KIND_OF_SIZE)
"""How many bytes of a batch are enough to recognise a control batch."""


def hole(base: int, end: int, epoch: int) -> bytearray:
    """Makes a batch that covers the offsets from `base` to `end`, exclusive. No store has or will ever have their
    records."""
    assert 0 < end - base <= HOLE_OFFSETS_MAX
    return _batch(base, end, epoch, ControlKind.HOLE, _HOLE_VALUE.pack(_VERSION))


def bridge(base: int, epoch: int) -> bytearray:
    """Makes a batch of one offset, after the part of the log that the leader of this epoch has recovered."""
    return _batch(base, base + 1, epoch, ControlKind.BRIDGE, _BRIDGE_VALUE.pack(_VERSION, epoch))


def _batch(base: int, end: int, epoch: int, kind: ControlKind, value: bytes) -> bytearray:
    record = _RECORD_START + _KEY.pack(_VERSION, kind) + bytes((len(value) << 1,)) + value + _NO_HEADERS
    header = BatchHeader(
        base_offset=base,
        batch_length=0,
        leader_epoch=Epoch(epoch),
        magic=MAGIC,
        crc=0,
        attributes=CONTROL,
        last_offset_delta=end - base - 1,
        base_timestamp=_NO_TIMESTAMP,
        max_timestamp=_NO_TIMESTAMP,
        producer_id=_NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    return assemble(header, bytes((len(record) << 1,)) + record)


def control_kind(header: BatchHeader, batch: Buffer, position: int = 0) -> ControlKind | None:
    """Returns what kind of control batch it is, or None for producers' records and transaction markers."""
    if not header.attributes & CONTROL or header.producer_id != _NO_PRODUCER or header.record_count != 1:
        return None
    kind = _KIND_OF_SIZE.get(header.size)
    if kind is None or len(batch) - position < header.size:
        return None
    record = position + _RECORD_POSITION
    is_ours = batch[record : record + len(_RECORD_START)] == _RECORD_START
    return kind if is_ours and _KEY.unpack_from(batch, position + _KEY_POSITION) == (_VERSION, kind) else None


def bridge_epoch(batch: Buffer, position: int = 0) -> Epoch:
    """Returns the epoch of the leader that wrote the bridge. The epoch in the header is later if the bridge was
    recovered again."""
    _, epoch = _BRIDGE_VALUE.unpack_from(batch, position + _VALUE_POSITION)
    return Epoch(epoch)
