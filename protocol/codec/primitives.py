"""Building blocks of the compiled codecs: types of parts, variable-length integers, and runs of equal elements."""

import struct
from collections.abc import Callable, Sequence, Sized
from functools import lru_cache
from typing import Any, TypeAlias
from uuid import UUID

from tailrace.protocol.error_codes import RemoteProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview

Part: TypeAlias = Sized
"""One piece of an encoded message: a buffer, or the object that was given as `records`.

`len(part)` is its size in bytes. The file ranges of storage are such parts; the codec never sees their bytes.
"""

Records: TypeAlias = Buffer | Part
"""Record batches: a memoryview of the received frame when decoded, any part when encoded."""

NO_UUID = UUID(int=0)

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The primitives of fixed size, and their format characters for `struct`."""

TOO_SHORT = "the message ends in the middle of a field"

TAGS_MAX = 10_000
"""How many tagged fields a message may have in all its structs together, as in Kafka 4.4.

A field that we do not know takes two bytes on the wire. Without this bound, skipping the fields of one large frame
would take many seconds.
"""
TOO_MANY_TAGS = f"a message has more than {TAGS_MAX} tagged fields"

_RUN_LENGTH_KEPT = 32
"""Runs of elements up to this length, for example the replicas of a partition, have a `struct.Struct` that is made
once."""


def uvarint(value: int) -> bytes:
    """Encodes an integer with seven bits in each byte, low bits first. All bytes but the last have the high bit set."""
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def rest_of_uvarint(view: Buffer, position: int, first: int) -> tuple[int, int]:
    """Reads the rest of an integer whose first byte has the high bit set. Returns the value and the position after
    it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value, position
    raise RemoteProtocolError("a variable-length integer has more than 32 bits")


def read_uvarint(view: Buffer, position: int) -> tuple[int, int]:
    first = view[position]
    if first < 0x80:
        return first, position + 1
    second = view[position + 1]
    if second < 0x80:  # most records that are sent singly have such a size
        return first & 0x7F | second << 7, position + 2
    return rest_of_uvarint(view, position + 1, first)


def tagged(tag: int, body: bytes) -> bytes:
    """Encodes one field of a tagged section."""
    return uvarint(tag) + uvarint(len(body)) + body


def skip_tagged(view: Buffer, position: int, count: int, tags_max: int = TAGS_MAX) -> tuple[int, int]:
    """Skips unknown tagged fields, which newer peers may send. Returns the position after them, and how many more
    tagged fields the message may have.

    `count` is the first byte of their number, which the caller has read: it is nearly always 0, and then nothing is
    called. `tags_max` bounds their number.
    """
    if count > 127:
        count, position = rest_of_uvarint(view, position, count)
    if count > tags_max:
        raise RemoteProtocolError(TOO_MANY_TAGS)
    end = len(view)
    for _ in range(count):
        _, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        position += size
        if position > end:
            raise RemoteProtocolError(TOO_SHORT)
    return position, tags_max - count


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID:
    """Returns the UUID of these bytes. It is cached: a UUID costs as much as decoding the rest of a request, and there
    are few topics."""
    return UUID(bytes=raw)


def run_packer(code: str) -> Callable[[Sequence[Any]], bytes]:
    """Returns a function that encodes a list of elements of fixed size, without its length."""
    kept = [struct.Struct(f">{count}{code}").pack for count in range(_RUN_LENGTH_KEPT)]

    def pack_run(values: Sequence[Any]) -> bytes:
        count = len(values)
        if count < _RUN_LENGTH_KEPT:
            return kept[count](*values)
        return struct.Struct(f">{count}{code}").pack(*values)

    return pack_run


def run_unpacker(code: str) -> Callable[[Buffer, int, int], list[Any]]:
    """Returns a function (view, position, count) that decodes elements of fixed size. The caller has checked the
    size."""
    kept = [struct.Struct(f">{count}{code}").unpack_from for count in range(_RUN_LENGTH_KEPT)]

    def unpack_run(view: Buffer, position: int, count: int) -> list[Any]:
        if count < _RUN_LENGTH_KEPT:
            return list(kept[count](view, position))
        return list(struct.Struct(f">{count}{code}").unpack_from(view, position))

    return unpack_run
