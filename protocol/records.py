"""Opens a batch: the records inside, one by one, for the few who must look: dump, compaction, times, coordinators."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct

from .compression import DECOMPRESSED_BYTES_MAX, Compression, compress, decompress
from .error_codes import ErrorCode, KafkaError
from .primitives import Buffer
from .record_batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC, crc_of, read_header

_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")


@dataclass(slots=True)
class Record:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def read_records(batch: Buffer) -> list[Record]:
    header = read_header(batch)
    body: Buffer = memoryview(batch)[HEADER_SIZE : header.size]
    compression = Compression(header.attributes & 7)
    if compression is not Compression.NONE:
        body = decompress(compression, body, DECOMPRESSED_BYTES_MAX)
    append_time = header.max_timestamp if header.attributes & 8 else None
    records = []
    position = 0
    try:
        for _ in range(header.record_count):
            size, position = _varint(body, position)
            end = position + size
            _, position = body[position], position + 1
            timestamp_delta, position = _varint(body, position)
            offset_delta, position = _varint(body, position)
            key, position = _bytes(body, position)
            value, position = _bytes(body, position)
            count, position = _varint(body, position)
            headers = []
            for _ in range(count):
                name, position = _bytes(body, position)
                content, position = _bytes(body, position)
                headers.append(((name or b"").decode(), content))
            if position != end:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record's length is wrong")
            timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
            records.append(Record(header.base_offset + offset_delta, timestamp, key, value, headers))
    except (IndexError, UnicodeDecodeError) as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record is malformed: {error}") from None
    return records


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_control: bool = False,
    is_transactional: bool = False,
) -> bytearray:
    records = list(records)
    base_timestamp = records[0].timestamp if records else -1
    body = bytearray()
    for record in records:
        inside = bytearray(1)
        _put_varint(inside, record.timestamp - base_timestamp)
        _put_varint(inside, record.offset - base_offset)
        _put_bytes(inside, record.key)
        _put_bytes(inside, record.value)
        _put_varint(inside, len(record.headers))
        for name, content in record.headers:
            _put_bytes(inside, name.encode())
            _put_bytes(inside, content)
        _put_varint(body, len(inside))
        body += inside
    packed: Buffer = body if compression is Compression.NONE else compress(compression, body)
    attributes = int(compression) | (0x10 if is_transactional else 0) | (0x20 if is_control else 0)
    last = records[-1].offset - base_offset if records else 0
    newest = max((record.timestamp for record in records), default=-1)
    batch = bytearray(HEADER_SIZE)
    batch += packed
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last,
        base_timestamp,
        newest,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    _CRC.pack_into(batch, CRC_START - 4, crc_of(batch, 0, len(batch)))
    return batch


def _varint(data: Buffer, position: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a number in a record is too long")


def _bytes(data: Buffer, position: int) -> tuple[bytes | None, int]:
    size, position = _varint(data, position)
    if size < 0:
        return None, position
    if size > len(data) - position:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is cut short")
    return bytes(data[position : position + size]), position + size


def _put_varint(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        _put_varint(out, -1)
    else:
        _put_varint(out, len(data))
        out += data
