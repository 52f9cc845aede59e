from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.codec.primitives import (
    TAGS_MAX,
    read_uvarint,
    run_packer,
    run_unpacker,
    skip_tagged,
    tagged,
    uuid_of,
    uvarint,
)
from tailrace.protocol.error_codes import RemoteProtocolError


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_variable_length_integers(value: int, before: bytes) -> None:
    data = before + uvarint(value) + b"more"
    assert read_uvarint(data, len(before)) == (value, len(data) - 4)


def test_variable_length_integers_byte_by_byte() -> None:
    assert [uvarint(value).hex() for value in (0, 127, 128, 300, 2**32 - 1)] == [
        "00",
        "7f",
        "8001",
        "ac02",
        "ffffffff0f",
    ]


@pytest.mark.parametrize("data", ["ffffffff10", "ffffffffff01", "8080808080"])
def test_more_than_32_bits_are_refused(data: str) -> None:
    with pytest.raises(RemoteProtocolError):
        read_uvarint(bytes.fromhex(data), 0)


def test_tagged_fields_are_skipped_as_they_were_written() -> None:
    section = tagged(3, b"abc") + tagged(300, b"x" * 200)
    assert skip_tagged(section + b"more", 0, 2, 5) == (len(section), 3)
    with pytest.raises(RemoteProtocolError):
        skip_tagged(section[:-1], 0, 2)


def test_many_unknown_tagged_fields_are_skipped_from_the_first_byte_of_their_number_on() -> None:
    number = uvarint(200)
    section = number + b"".join(tagged(tag, b"x") for tag in range(200))
    assert skip_tagged(section + b"more", 1, number[0]) == (len(section), TAGS_MAX - 200)


def test_more_tagged_fields_than_the_bound_are_refused_before_one_is_read() -> None:
    number = uvarint(TAGS_MAX + 1)
    with pytest.raises(RemoteProtocolError, match="more than 10000 tagged fields"):
        skip_tagged(number, 1, number[0])


@pytest.mark.parametrize("count", [0, 1, 31, 32, 500])
def test_runs_of_any_length(count: int) -> None:
    values = list(range(-1, count - 1))
    packed = run_packer("i")(values)
    assert len(packed) == 4 * count
    assert run_unpacker("i")(b"before" + packed, 6, count) == values


def test_the_same_uuid_is_built_once() -> None:
    raw = bytes(range(16))
    assert uuid_of(raw) == UUID(bytes=raw)
    assert uuid_of(raw) is uuid_of(bytes(raw))
