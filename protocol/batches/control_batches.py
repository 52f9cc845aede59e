"""The control batches that recovery writes: a hole, for offsets that no store holds, and a bridge, which ends what was
recovered.

Kafka's clients skip control batches of a type that they do not know, and go on behind them. Both are without a
timestamp, and everything that their checksum covers follows from where they lie and, for a bridge, from its epoch: so
two leaders that make the same one make the same bytes, but for the epoch that is stamped outside the checksum.
"""

import struct
from enum import IntEnum

from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.ids import Epoch

from .record_batch import CONTROL, HEADER_SIZE, MAGIC, BatchHeader, assemble

_NO_TIMESTAMP = -1
_NO_PRODUCER = -1


class ControlKind(IntEnum):
    """The value is the control type in the record's key. Kafka counts its own from 0 on: these are far away."""

    HOLE = 0x7448
    BRIDGE = 0x7442


HOLE_OFFSETS_MAX = 2**31
"""A batch counts its offsets in 31 bits: a larger hole takes several."""

# One record: attributes, timestamp delta, offset delta and key length are the same for all; so the key always lies at
# the same place, and is found without decoding a record.
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
"""So much of a control batch tells what it is."""


def hole(base: int, end: int, epoch: int) -> bytearray:
    """Covers the offsets up to `end`, exclusive: nobody has them, and nobody ever will."""
    assert 0 < end - base <= HOLE_OFFSETS_MAX
    return _batch(base, end, epoch, ControlKind.HOLE, _HOLE_VALUE.pack(_VERSION))


def bridge(base: int, epoch: int) -> bytearray:
    """One offset, behind what the leader of this epoch recovered."""
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
    """None for everything that recovery did not write: records of producers, and markers of their transactions."""
    if not header.attributes & CONTROL or header.producer_id != _NO_PRODUCER or header.record_count != 1:
        return None
    kind = _KIND_OF_SIZE.get(header.size)
    if kind is None or len(batch) - position < header.size:
        return None
    record = position + _RECORD_POSITION
    is_ours = batch[record : record + len(_RECORD_START)] == _RECORD_START
    return kind if is_ours and _KEY.unpack_from(batch, position + _KEY_POSITION) == (_VERSION, kind) else None


def bridge_epoch(batch: Buffer, position: int = 0) -> Epoch:
    """Of the leader that wrote it: the epoch in the header may be a later one, stamped when it was recovered again."""
    _, epoch = _BRIDGE_VALUE.unpack_from(batch, position + _VALUE_POSITION)
    return Epoch(epoch)
