"""Checks that a batch's body consists of well-formed records with consecutive numbers, without decoding them.

Every produced record passes this check, so that it is written for speed. Most batches have runs of records of the same
length, and a run is checked by columns: with the length as stride, the bytes that describe the layout of a record are
slices, and those of many records are compared at once. A record outside a run is checked by itself, in less than a
microsecond: nearly all its numbers have one or two bytes, which are read without a call. A single record without key
and headers is recognised by the beginning of the body.
"""

from collections.abc import Generator, Iterator
from functools import cache

from tailrace.protocol.codec.primitives import Buffer, uvarint
from tailrace.protocol.error_codes import ErrorCode, KafkaError

HEADERS_AT_ONCE = 5_000
"""How many headers the records may have that are checked in one go."""
RECORDS_PER_STEP = 500
HEADERS_PER_STEP = 2_000
"""How much of a heavy batch is checked in a step, which takes less than a millisecond."""

_COPIED_RECORD_BYTES_MAX = 1024
"""Bodies with records up to this size are copied: bytes are sliced faster than a memoryview, but a larger copy costs
more than it gains."""

_RUN_FIRST = 16
_RUN_MIN = 8
_RUN_GROWTH = 4

_VARINT_BYTES_MAX = 5
_TIMESTAMP_BYTES_MAX = 10

_ONE_BYTE_END = 64
_TWO_BYTES_END = 8192
"""The offset deltas from which on a record's number takes another byte."""
_ONE_BYTE = bytes(2 * number for number in range(_ONE_BYTE_END))
_FIRST_BYTE = bytes((2 * number & 0x7F) | 0x80 for number in range(_TWO_BYTES_END))
_SECOND_BYTE = bytes(number >> 6 for number in range(_TWO_BYTES_END))
_SECOND_BYTE_OF_THREE = bytes(byte | 0x80 for byte in _SECOND_BYTE)
"""The columns of the encoded numbers; the first two columns of three-byte numbers repeat."""

_LAST_BYTES = bytes(range(0x80))
"""The bytes that can end a varint."""

_PLAIN = bytes((0, 0, 0, 1))
"""Attributes, time and number of the first record in a batch, and the length of no key."""
_NO_HEADERS = 0
_WRONG_LENGTH = "has another length than its fields"


class ManyHeadersError(Exception):
    """The records have more headers than are checked in one go. All but the headers of the last record is checked."""

    def __init__(self, number: int, position: int, header_count: int, stop: int, *, keyed: bool) -> None:
        super().__init__()
        self.number = number
        """The number of the record with the headers that are not checked yet."""
        self.position = position
        """Where these headers begin."""
        self.header_count = header_count
        self.stop = stop
        """Where the headers have to end; -1 if the record is invalid anyway."""
        self.keyed = keyed
        """Whether every record up to this one has a key."""


def check_records(body: Buffer, count: int) -> bool:
    """Returns whether every record has a key.

    Raises KafkaError (INVALID_RECORD) unless the body is `count` valid records, and ManyHeadersError if it has to be
    checked in steps.
    """
    end = len(body)
    if count * _COPIED_RECORD_BYTES_MAX > end:
        body = body.tobytes() if type(body) is memoryview else bytes(body)
        if count == 1 and (plain := _start_of_plain(end)) and body.startswith(plain) and body[-1] == _NO_HEADERS:
            return False
    position, keyed = _walk(body, 0, 0, count)
    if position != end:
        raise _too_long(end - position, count)
    return keyed


def check_records_in_steps(body: Buffer, count: int) -> Generator[None, None, bool]:
    """Returns what `check_records` returns for a body of any size, and yields after each step."""
    number = position = 0
    keyed = True
    while number < count:
        until = min(count, number + RECORDS_PER_STEP)
        try:
            position, have_keys = _walk(body, number, position, until)
            number = until
        except ManyHeadersError as many:
            position = yield from _past_headers_in_steps(body, many)
            number, have_keys = many.number + 1, many.keyed
        keyed = keyed and have_keys
        yield
    if position != len(body):
        raise _too_long(len(body) - position, count)
    return keyed


def _walk(body: Buffer, number: int, position: int, count: int) -> tuple[int, bool]:
    """Checks the records from `number`, which begins at `position`, up to `count`. Returns the position after them, and
    whether each has a key."""
    keyed = True
    last_stride = headers = 0
    try:
        while number < count:
            start = position
            size = body[position]
            position += 1
            if size >= 0x80:
                if (second := body[position]) < 0x80:
                    size = size & 0x7F | second << 7
                    position += 1
                else:
                    size, position = _rest_of_varint(body, position, size)
            attributes_at = position
            stop = position + (size >> 1)
            if size & 1:
                raise _invalid(number, "has a negative length")
            position += 1
            while body[position] >= 0x80:
                position += 1
            number_at = position = position + 1
            if number < _ONE_BYTE_END:
                if body[position] != _ONE_BYTE[number]:
                    raise _invalid(number, "has the wrong offset delta")
                position += 1
            elif number < _TWO_BYTES_END:
                if body[position] != _FIRST_BYTE[number] or body[position + 1] != _SECOND_BYTE[number]:
                    raise _invalid(number, "has the wrong offset delta")
                position += 2
            else:
                encoded, position = _rest_of_varint(body, position + 1, body[position])
                if encoded != number << 1:
                    raise _invalid(number, "has the wrong offset delta")
            key_at = position
            size = body[position]
            position += 1
            if size >= 0x80:
                size, position = _rest_of_varint(body, position, size)
            key = position
            if size & 1:
                keyed = False
            else:
                position += size >> 1
            value_at = position
            size = body[position]
            position += 1
            if size >= 0x80:
                if (second := body[position]) < 0x80:
                    size = size & 0x7F | second << 7
                    position += 1
                else:
                    size, position = _rest_of_varint(body, position, size)
            value = position
            if not size & 1:
                position += size >> 1
            has_headers = body[position]
            position += 1
            if has_headers:
                header_count = has_headers
                if header_count >= 0x80:
                    header_count, position = _rest_of_varint(body, position, header_count)
                if header_count & 1:
                    raise KafkaError(ErrorCode.INVALID_RECORD, "a record has a negative number of headers")
                headers += header_count >> 1
                if headers > HEADERS_AT_ONCE:
                    is_long = number_at - attributes_at - 1 > _TIMESTAMP_BYTES_MAX
                    raise ManyHeadersError(number, position, header_count >> 1, -1 if is_long else stop, keyed=keyed)
                position = _past_headers(body, position, header_count >> 1)
            if position != stop or number_at - attributes_at - 1 > _TIMESTAMP_BYTES_MAX:
                raise _invalid(number, _WRONG_LENGTH)
            number += 1
            stride = position - start
            if stride != last_stride or has_headers:
                last_stride = stride
                continue
            lengths = (*range(start, attributes_at), *range(key_at, key), *range(value_at, value), position - 1)
            run = _run_length(body, start, stride, number, count, lengths, (attributes_at + 1, number_at, key_at))
            number += run
            position += run * stride
            last_stride = 0
    except IndexError:
        raise _invalid(number, "is truncated") from None
    return position, keyed


@cache
def _start_of_plain(size: int) -> bytes:
    """Returns how a body of this size begins if it is one record without key and headers; empty if that is
    impossible."""
    length = _size_before(size)
    value_size = _size_before(size - len(length) - len(_PLAIN) - 1)
    return length + _PLAIN + value_size if length and value_size else b""


def _size_before(size: int) -> bytes:
    """Returns the varint whose own size and value are this size together; empty if there is none."""
    for width in range(1, min(size, _VARINT_BYTES_MAX) + 1):
        encoded = uvarint(2 * (size - width))
        if len(encoded) == width:
            return encoded
    return b""


def times_and_keys(body: Buffer) -> Iterator[tuple[int, bool]]:
    """Yields the timestamp delta of each record in a checked body, and whether the record has a key.

    It is fast because a batch of a few compressed bytes may have a million records.
    """
    position, end = 0, len(body)
    while position < end:
        size = body[position]
        position += 1
        if size >= 0x80:
            size, position = _rest_of_varint(body, position, size)
        stop = position + (size >> 1)
        byte = body[position + 1]  # after the attributes
        position += 2
        time, shift = byte & 0x7F, 7
        while byte >= 0x80:
            byte = body[position]
            position += 1
            time |= (byte & 0x7F) << shift
            shift += 7
        while body[position] >= 0x80:  # the offset delta
            position += 1
        yield time >> 1 ^ -(time & 1), not body[position + 1] & 1
        position = stop


def _run_length(
    body: Buffer,
    start: int,
    stride: int,
    number: int,
    count: int,
    lengths: tuple[int, ...],
    fields: tuple[int, int, int],
) -> int:
    """Returns how many records after the one at `start` are known to have the same layout; there may be more.

    `number` is the number of the next record. `lengths` are the positions of all bytes that must be equal in each
    record. `fields` are the positions of the timestamp, of the record's number, and of the byte after the number.
    """
    timestamp_at, number_at, key_at = fields
    width = key_at - number_at
    if width > 3:
        return 0
    first = number
    room = min(count, _ONE_BYTE_END if width == 1 else (number - 1 | _TWO_BYTES_END - 1) + 1) - number
    room = min(room, (len(body) - start) // stride - 1)
    wanted = _RUN_FIRST
    while (records := min(wanted, room)) >= _RUN_MIN:
        ahead = (number - first + 1) * stride
        stop = start + ahead + records * stride
        if (
            all(bytes(body[at + ahead : stop : stride]).count(body[at]) == records for at in lengths)
            and all(
                bytes(body[number_at + place + ahead : stop : stride]) == column
                for place, column in enumerate(_number_columns(number, records, width))
            )
            and bytes(body[number_at - 1 + ahead : stop : stride]).isascii()
            and all(
                len(bytes(body[at + ahead : stop : stride]).translate(None, _LAST_BYTES)) == records
                for at in range(timestamp_at, number_at - 1)
            )
        ):
            number += records
            room -= records
            wanted *= _RUN_GROWTH
        else:
            wanted = records // _RUN_GROWTH
    return number - first


def _number_columns(number: int, records: int, width: int) -> tuple[bytes, ...]:
    if width == 1:
        return (_ONE_BYTE[number : number + records],)
    begin = number % _TWO_BYTES_END
    end = begin + records
    if width == 2:
        return _FIRST_BYTE[begin:end], _SECOND_BYTE[begin:end]
    return _FIRST_BYTE[begin:end], _SECOND_BYTE_OF_THREE[begin:end], bytes((number // _TWO_BYTES_END,)) * records


def _past_headers(body: Buffer, position: int, count: int) -> int:
    for _ in range(count):
        size, position = _rest_of_varint(body, position + 1, body[position])
        if size & 1:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a header of a record has no name")
        position += size >> 1
        size, position = _rest_of_varint(body, position + 1, body[position])
        if not size & 1:
            position += size >> 1
    return position


def _past_headers_in_steps(body: Buffer, many: ManyHeadersError) -> Generator[None, None, int]:
    """Checks the headers of one record. Returns the position after them, where the record ends."""
    position, left = many.position, many.header_count
    try:
        while left:
            count = min(left, HEADERS_PER_STEP)
            position = _past_headers(body, position, count)
            left -= count
            yield
    except IndexError:
        raise _invalid(many.number, "is truncated") from None
    if position != many.stop:
        raise _invalid(many.number, _WRONG_LENGTH)
    return position


def _rest_of_varint(body: Buffer, position: int, byte: int) -> tuple[int, int]:
    """Reads the rest of a varint after its first byte. Returns the number, still in zigzag form (odd if it is
    negative), and the position after it."""
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 7 * _VARINT_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a length in a record has too many bytes")
    return value, position


def _too_long(rest: int, count: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"{rest} bytes follow the last of {count} records")


def _invalid(number: int, what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"record {number} of the batch {what}")
