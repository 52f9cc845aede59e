"""Reads and writes the records inside a batch, for the few callers that must."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch

from .compression import DECOMPRESSED_BYTES_MAX, Compression, compress, decompress
from .record_batch import (
    APPEND_TIME,
    CONTROL,
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    assemble,
    read_header,
)

NO_TIMESTAMP = -1

_VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10


class Record(Struct):
    """One record. Its offset and timestamp are absolute; inside a batch they are differences to those of the batch.

    Bytes in a header's name that are not UTF-8 become surrogate escapes.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def read_records(batch: Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Reads all records of the batch at the start of the buffer. Raises KafkaError (CORRUPT_MESSAGE) and nothing
    else."""
    header = read_header(batch)
    return decode_records(header, open_body(batch, header, decompressed_bytes_max))


def open_body(batch: Buffer, header: BatchHeader, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Returns the decompressed body of a batch. Raises KafkaError (CORRUPT_MESSAGE)."""
    if len(batch) < header.size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch is truncated")
    body = memoryview(batch)[HEADER_SIZE : header.size]
    try:
        return decompress(header.compression, body, decompressed_bytes_max)
    except ValueError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the records cannot be decompressed: {error}") from None


def decode_records(header: BatchHeader, body: bytes) -> list[Record]:
    append_time = header.max_timestamp if header.is_log_append_time else None
    records = []
    position, end_of_body = 0, len(body)
    try:
        for _ in range(header.record_count):
            size, position = read_varint(body, position)
            end = position + size
            if size < 0 or end > end_of_body:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is truncated")
            position += 1  # the record's attributes, which are unused
            timestamp_delta, position = read_varint(body, position, VARLONG_BYTES_MAX)
            offset_delta, position = read_varint(body, position)
            key, position = _read_bytes(body, position, end)
            value, position = _read_bytes(body, position, end)
            headers, position = read_headers(body, position, end)
            if position != end:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record has another length than its fields")
            timestamp = header.timestamp_at(timestamp_delta) if append_time is None else append_time
            records.append(Record(header.base_offset + offset_delta, timestamp, key, value, headers))
    except IndexError:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is malformed") from None
    if position != end_of_body:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{end_of_body - position} bytes follow the last record")
    return records


def read_headers(body: bytes, position: int, end: int) -> tuple[list[tuple[str, bytes | None]], int]:
    """Reads the headers of a record that ends at `end`. Returns them and the position after them."""
    count, position = read_varint(body, position)
    if count < 0:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record has {count} headers")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end)
        if name is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record's header has no name")
        content, position = _read_bytes(body, position, end)
        headers.append((name.decode(errors="surrogateescape"), content))
    return headers, position


def read_varint(data: bytes, position: int, bytes_max: int = _VARINT_BYTES_MAX) -> tuple[int, int]:
    """Reads a zigzag varint, and returns it and the position after it. The numbers 0, -1, 1, -2 are stored as 0, 1, 2,
    3, so that small numbers of either sign take few bytes."""
    value = shift = 0
    for _ in range(bytes_max):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a number in a record is too long")


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record's field is longer than the record")
    return data[position : position + size], position + size


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_control: bool = False,
    is_transactional: bool = False,
    append_time: int | None = None,
) -> bytearray:
    """Makes a whole batch with its checksum. The records' offsets must rise, and none may be below `base_offset`."""
    content = list(records)
    attributes = compression | (TRANSACTIONAL if is_transactional else 0) | (CONTROL if is_control else 0)
    base_timestamp = content[0].timestamp if content else NO_TIMESTAMP
    max_timestamp = max((record.timestamp for record in content), default=NO_TIMESTAMP)
    if append_time is not None:
        attributes |= APPEND_TIME
        max_timestamp = append_time
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=Epoch(leader_epoch),
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=content[-1].offset - base_offset if content else 0,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(content),
    )
    body = encode_records(content, base_offset, base_timestamp)
    return assemble(header, compress(compression, body, compression_level) if compression else body)


def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytearray:
    """Encodes the body of a batch, without compression."""
    body = bytearray()
    for record in records:
        content = bytearray(1)  # the record's attributes
        _put_varint(content, record.timestamp - base_timestamp)
        _put_varint(content, record.offset - base_offset)
        _put_bytes(content, record.key)
        _put_bytes(content, record.value)
        _put_varint(content, len(record.headers))
        for name, value in record.headers:
            _put_bytes(content, name.encode(errors="surrogateescape"))
            _put_bytes(content, value)
        _put_varint(body, len(content))
        body += content
    return body


def _put_varint(output: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else ~(value << 1)
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)


def _put_bytes(output: bytearray, data: bytes | None) -> None:
    if data is None:
        _put_varint(output, -1)
    else:
        _put_varint(output, len(data))
        output += data
