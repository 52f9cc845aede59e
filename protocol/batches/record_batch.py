"""The header of a record batch (magic 2): read with one call, stamped in place, without touching the records.

Offset and leader epoch are outside the checksum, so that the leader writes both without a new checksum. Every produced
batch takes this path: header, checksum and stamp together cost a few microseconds.
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
"""How many bytes stand before those that the batch length counts."""
MAGIC = 2
MAGIC_AT = 16
"""The position of the magic in the header, also in batches of earlier formats."""
CRC_START = 21
"""The position from which on the checksum covers everything: the attributes."""
SEQUENCE_END = 2**31
"""The sequence number after the last one; sequence numbers start at 0 again."""

COMPRESSION_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_TIMESTAMP_END = 2**63
_BATCH_LENGTH_MIN = HEADER_SIZE - LOG_OVERHEAD
_PLACE = struct.Struct(">qii")
"""Offset, length and epoch, with which a header begins."""
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_EPOCH_POSITION = 12
_CRC = struct.Struct(">I")
_CRC_POSITION = 17
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35


class BatchHeader(Struct, gc=False):  # it has only numbers, so that it cannot be part of a cycle
    """The header of a record batch, with its fields in the order of the batch."""

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
        """The codec of the records. Raises KafkaError (CORRUPT_MESSAGE) if it is unknown."""
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
        """Whether `base_timestamp` says from when on tombstones may be deleted. Only compaction sets this."""
        return bool(self.attributes & DELETE_HORIZON)

    def timestamp_at(self, delta: int) -> int:
        """Returns the time of a record with this difference to the first record. It wraps like the 64-bit numbers of
        clients, because a producer's times are not checked."""
        timestamp = self.base_timestamp + delta
        if -_TIMESTAMP_END <= timestamp < _TIMESTAMP_END:
            return timestamp
        return (timestamp + _TIMESTAMP_END) % (2 * _TIMESTAMP_END) - _TIMESTAMP_END

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, which wraps as in the producer; -1 without a producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_END

    @property
    def next_sequence(self) -> int:
        """The sequence number of the producer's next record."""
        return (self.last_sequence + 1) % SEQUENCE_END


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Reads the header at a position. Raises KafkaError (CORRUPT_MESSAGE) if there is no batch of magic 2. The checksum
    is not checked: see `crc_of`."""
    try:
        header = BatchHeader(*_HEADER.unpack_from(buffer, position))
    except struct.error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch is truncated") from None
    if header.batch_length < _BATCH_LENGTH_MIN:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have the length {header.batch_length}")
    if header.magic != MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch has the magic {header.magic}, not {MAGIC}")
    return header


def iterate(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of each whole batch. Stops at a truncated batch, and raises KafkaError at a corrupt
    header."""
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        size = header.size
        if position + size > end:
            return
        yield position, header
        position += size


def crc_of(buffer: Buffer, position: int, size: int) -> int:
    """Computes the checksum that the batch of this size should have."""
    return crc32c.crc32c(memoryview(buffer)[position + CRC_START : position + size])


def stamp(buffer: Buffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes offset and epoch into the batch. The checksum does not cover them."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + _EPOCH_POSITION, leader_epoch)


def stamp_as(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Writes offset and epoch of the header into the batch, and its unchanged length, which stands between the two."""
    _PLACE.pack_into(buffer, position, header.base_offset, header.batch_length, header.leader_epoch)


def write_header(buffer: Buffer, header: BatchHeader) -> None:
    """Writes the whole header over the header of the batch at the start of the buffer."""
    _HEADER.pack_into(buffer, 0, *astuple(header))


def stamp_append_time(buffer: Buffer, position: int, size: int, now_ms: int) -> None:
    """Gives all records of the batch the append time, and the batch its new checksum."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes | APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, now_ms)
    stamp_crc(buffer, position, size)


def stamp_max_timestamp(buffer: Buffer, position: int, size: int, timestamp_ms: int) -> int:
    """Writes the largest timestamp and the new checksum into the batch. Returns the checksum."""
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    return stamp_crc(buffer, position, size)


def stamp_crc(buffer: Buffer, position: int, size: int) -> int:
    """Computes the checksum of the batch and writes it into the batch. Returns the checksum."""
    crc = crc_of(buffer, position, size)
    _CRC.pack_into(buffer, position + _CRC_POSITION, crc)
    return crc


def assemble(header: BatchHeader, body: Buffer) -> bytearray:
    """Makes a whole batch of header and body (compressed as the attributes say). Sets length and checksum in the
    header."""
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
