"""The header of a record batch (magic 2): read with one call, stamped in place; the records inside are never touched.

Offset and leader epoch lie outside the checksum, so the leader writes both without computing it again. This is the
path of every produced batch: header, checksum and stamp together cost a few microseconds.
"""

import struct
from collections.abc import Iterator

import crc32c
from msgspec import Struct
from msgspec.structs import astuple

from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch

from .compression import Compression

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""The bytes before those that the batch length counts."""
MAGIC = 2
MAGIC_AT = 16
"""In the header; at the same place in batches of earlier formats."""
CRC_START = 21
"""The checksum covers everything from the attributes on."""
SEQUENCE_END = 2**31
"""Sequence numbers start at 0 again here."""

COMPRESSION_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_TIMESTAMP_END = 2**63
_BATCH_LENGTH_MIN = HEADER_SIZE - LOG_OVERHEAD
_PLACE = struct.Struct(">qii")
"""Offset, length and epoch."""
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_EPOCH_POSITION = 12
_CRC = struct.Struct(">I")
_CRC_POSITION = 17
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35


class BatchHeader(Struct, gc=False):  # of numbers alone
    """The fields in the order they have in the batch."""

    base_offset: int
    batch_length: int
    leader_epoch: Epoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Raises KafkaError (CORRUPT_MESSAGE) for a codec that nobody knows."""
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"compression {self.attributes & COMPRESSION_MASK} is not known"
            ) from None

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Then `base_timestamp` says from when on its tombstones may go; set by compaction alone."""
        return bool(self.attributes & DELETE_HORIZON)

    def timestamp_at(self, delta: int) -> int:
        """The time of a record that differs so much from the first one. Nobody checks what a producer writes there, and
        clients count with 64 bits: whatever exceeds these comes out at their other end."""
        timestamp = self.base_timestamp + delta
        if -_TIMESTAMP_END <= timestamp < _TIMESTAMP_END:
            return timestamp
        return (timestamp + _TIMESTAMP_END) % (2 * _TIMESTAMP_END) - _TIMESTAMP_END

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """-1 without a producer; otherwise it wraps as the producer's own counting does."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_END

    @property
    def next_sequence(self) -> int:
        """With which its producer goes on."""
        return (self.last_sequence + 1) % SEQUENCE_END


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Raises KafkaError (CORRUPT_MESSAGE) where no batch of magic 2 can be; the checksum is left to `crc_of`."""
    try:
        header = BatchHeader(*_HEADER.unpack_from(buffer, position))
    except struct.error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch is cut short") from None
    if header.batch_length < _BATCH_LENGTH_MIN:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have the length {header.batch_length}")
    if header.magic != MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of magic {header.magic}, not {MAGIC}")
    return header


def iterate(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; stops at one that is cut short, raises KafkaError at an absurd one."""
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        size = header.size
        if position + size > end:
            return
        yield position, header
        position += size


def crc_of(buffer: Buffer, position: int, size: int) -> int:
    """The checksum that the batch of this size should carry."""
    return crc32c.crc32c(memoryview(buffer)[position + CRC_START : position + size])


def stamp(buffer: Buffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch its place in the log; the checksum does not cover it."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + _EPOCH_POSITION, leader_epoch)


def stamp_as(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Gives the batch its place in the log as its header has it; the length, between the two, stays."""
    _PLACE.pack_into(buffer, position, header.base_offset, header.batch_length, header.leader_epoch)


def write_header(buffer: Buffer, header: BatchHeader) -> None:
    """All of it, over that of the batch that begins the buffer."""
    _HEADER.pack_into(buffer, 0, *astuple(header))


def stamp_append_time(buffer: Buffer, position: int, size: int, now_ms: int) -> None:
    """Gives all records of the batch the broker's time, and the batch the checksum that goes with it."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes | APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, now_ms)
    stamp_crc(buffer, position, size)


def stamp_max_timestamp(buffer: Buffer, position: int, size: int, timestamp_ms: int) -> int:
    """The checksum that goes with it."""
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    return stamp_crc(buffer, position, size)


def stamp_crc(buffer: Buffer, position: int, size: int) -> int:
    crc = crc_of(buffer, position, size)
    _CRC.pack_into(buffer, position + _CRC_POSITION, crc)
    return crc


def assemble(header: BatchHeader, body: Buffer) -> bytearray:
    """A whole batch of this header and body (compressed as the attributes say); sets the header's length and CRC."""
    header.batch_length = HEADER_SIZE - LOG_OVERHEAD + len(body)
    batch = bytearray(HEADER_SIZE)
    _HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        header.batch_length,
        header.leader_epoch,
        header.magic,
        0,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    batch += body
    header.crc = crc_of(batch, 0, len(batch))
    _CRC.pack_into(batch, _CRC_POSITION, header.crc)
    return batch
