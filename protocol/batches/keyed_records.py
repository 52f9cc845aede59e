"""Walks the body of a batch for what compaction asks of each record, and where its bytes lie: they stay as they are.

Nothing is copied but the key. A record takes some two microseconds, half of what it takes to decode it as a whole.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.protocol.error_codes import ErrorCode, KafkaError


class KeyedRecord(NamedTuple):
    start: int
    """In the body, as is `end`."""
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool
    """Without one it is a tombstone."""


def keyed_records(body: bytes, count: int) -> Iterator[KeyedRecord]:
    """All records of an unpacked body. Raises KafkaError (CORRUPT_MESSAGE) unless there are so many, and no more."""
    position, end_of_body = 0, len(body)
    try:
        for _ in range(count):
            start = position
            size, position = _read_varint(body, position)
            end = position + size
            if size < 0 or end > end_of_body:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is cut short")
            timestamp_delta, position = _read_varint(body, position + 1)  # after the record's attributes
            offset_delta, position = _read_varint(body, position)
            key_size, position = _read_varint(body, position)
            key = None
            if key_size >= 0:
                key = body[position : position + key_size]
                position += key_size
            value_size, position = _read_varint(body, position)
            if position + max(value_size, 0) > end:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record's field is longer than the record")
            yield KeyedRecord(start, end, timestamp_delta, offset_delta, key, value_size >= 0)
            position = end
    except IndexError:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is malformed") from None
    if position != end_of_body:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{end_of_body - position} bytes follow the last record")


def record_times(body: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Of each record its offset and its time, as the differences to the batch's: nothing else of it is looked at, which
    takes half the time."""
    position, end_of_body = 0, len(body)
    try:
        for _ in range(count):
            size, position = _read_varint(body, position)
            end = position + size
            if size < 0 or end > end_of_body:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is cut short")
            timestamp_delta, position = _read_varint(body, position + 1)  # after the record's attributes
            offset_delta, _ = _read_varint(body, position)
            yield offset_delta, timestamp_delta
            position = end
    except IndexError:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is malformed") from None


_VARINT_SHIFT_MAX = 63


def _read_varint(body: bytes, position: int) -> tuple[int, int]:
    byte = body[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while shift <= _VARINT_SHIFT_MAX:
        position += 1
        byte = body[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a number in a record is too long")


def keep_last(body: bytes, count: int, kept: dict[bytes, bytes | None]) -> None:
    """Keeps of each key the value that its last record has, where the last record stands; None for a tombstone.

    For whoever reads a whole log and wants what compaction would leave of it: most records are passed over at half the
    cost of the walk above. A record without a key counts as one with an empty key.
    """
    position, end_of_body = 0, len(body)
    try:
        for _ in range(count):
            size, position = _read_varint(body, position)
            end = position + size
            position += 1  # the record's attributes
            while body[position] >= 0x80:  # its timestamp
                position += 1
            position += 1
            while body[position] >= 0x80:  # its offset
                position += 1
            size = body[position + 1]
            if size < 0x80:
                position += 2
                size = (size >> 1) ^ -(size & 1)
            else:
                size, position = _read_varint(body, position + 1)
            key = body[position : position + size] if size > 0 else b""
            position += len(key)
            size = body[position]
            if size < 0x80:
                position += 1
                size = (size >> 1) ^ -(size & 1)
            else:
                size, position = _read_varint(body, position)
            if position + max(size, 0) > end or end > end_of_body:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record's field is longer than the record")
            kept.pop(key, None)
            kept[key] = body[position : position + size] if size >= 0 else None
            position = end
    except IndexError:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is malformed") from None
    if position != end_of_body:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{end_of_body - position} bytes follow the last record")
