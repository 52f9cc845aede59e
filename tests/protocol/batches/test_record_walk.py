from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.batches.record_walk import (
    HEADERS_AT_ONCE,
    RECORDS_PER_STEP,
    ManyHeadersError,
    check_records,
    check_records_in_steps,
    times_and_keys,
)
from tailrace.protocol.batches.records import Record, decode_records, encode_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def header_for(count: int) -> BatchHeader:
    return BatchHeader(0, 0, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)


def well_formed(body: bytes, count: int) -> bool:
    """Returns what a slow and simple reader finds."""
    try:
        records = decode_records(header_for(count), body)
    except KafkaError:
        return False
    return [record.offset for record in records] == list(range(count))


def accepted(body: bytes, count: int) -> bool:
    answers = []
    for given_body in (body, memoryview(body)):
        try:
            check_records(given_body, count)
            answers.append(True)
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_RECORD
            answers.append(False)
    assert answers[0] == answers[1]
    try:
        for _ in check_records_in_steps(body, count):
            pass
        answers.append(True)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_RECORD
        answers.append(False)
    assert answers[0] == answers[2]
    return answers[0]


def uniform(count: int, size: int = 5, key: bytes | None = None) -> bytes:
    return bytes(encode_records([Record(number, 1000 + number, key, bytes(size)) for number in range(count)], 0, 1000))


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 66, 200, 8191, 8192, 8193, 8300, 20_000])
def test_runs_of_any_length(count: int) -> None:
    assert check_records(uniform(count), count) is False
    body = uniform(count)
    assert accepted(body, count)
    assert not accepted(body, count - 1)
    assert not accepted(body, count + 1)


@given(
    st.lists(
        st.builds(
            Record,
            offset=st.just(0),
            timestamp=st.integers(-(2**40), 2**40) | st.integers(0, 200),
            key=st.none() | st.binary(max_size=3) | st.binary(min_size=60, max_size=70),
            value=st.none() | st.binary(max_size=3) | st.integers(0, 20_000).map(bytes),
            headers=st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
        ),
        max_size=80,
    )
)
def test_good_records_pass(records: list[Record]) -> None:
    for number, record in enumerate(records):
        record.offset = number
    body = bytes(encode_records(records, 0, 0))
    assert accepted(body, len(records))
    assert check_records(body, len(records)) is all(record.key is not None for record in records)
    found = [(record.timestamp, record.key is not None) for record in records]
    assert list(times_and_keys(body)) == list(times_and_keys(memoryview(body))) == found


def test_every_byte_of_a_run_is_checked_like_that_of_a_single_record() -> None:
    """Compares a long run with one changed byte, at every position in some records, with the simple reader."""
    random = Random(3)
    count = 150
    for size, key in ((5, None), (5, b"key"), (200, b"k" * 70)):
        body = uniform(count, size, key)
        stride = len(body) // count
        for record in (0, 1, 2, 20, 40, 63, 64, 70, 120, 149):
            start = sum(len(encode_records([Record(n, 1000 + n, key, bytes(size))], 0, 1000)) for n in range(record))
            for position in range(start, min(start + min(stride + 1, 90), len(body))):
                spoilt = bytearray(body)
                spoilt[position] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, spoilt[position] ^ 1))
                assert accepted(bytes(spoilt), count) is well_formed(bytes(spoilt), count), (size, record, position)


@pytest.mark.parametrize("size", [0, 1, 56, 57, 58, 59, 60, 61, 100, 1000, 1012, 1013, 1014, 1015, 1016])
def test_every_byte_of_a_single_record_is_checked(size: int) -> None:
    body = uniform(1, size)
    assert check_records(body, 1) is False
    for cut_or_longer in (body[:-1], body + b"\0"):
        assert not accepted(cut_or_longer, 1)
    for position in (*range(min(9, len(body))), len(body) - 1):
        for bit in range(8):
            changed = bytearray(body)
            changed[position] ^= 1 << bit
            assert accepted(bytes(changed), 1) == well_formed(bytes(changed), 1), (position, bit)


def test_a_body_without_records() -> None:
    for size in range(3):
        assert not accepted(bytes(size), 1)


@pytest.mark.parametrize("width", [1, 2, 3, 9])
def test_runs_with_timestamps_of_any_width(width: int) -> None:
    delta = 2 ** (7 * width - 2)
    records = [Record(number, delta + number % 3, b"k", b"v") for number in range(300)]
    assert accepted(bytes(encode_records(records, 0, 0)), 300)


@pytest.mark.parametrize(("width", "is_good"), [(10, True), (11, False)])
def test_a_timestamp_has_an_end(width: int, is_good: bool) -> None:
    timestamp = b"\x80" * (width - 1) + b"\x00"
    fields = b"\x00" + timestamp + b"\x00\x01\x01\x00"
    body = bytes((2 * len(fields),)) + fields
    assert accepted(body, 1) is is_good is well_formed(body, 1)


def test_a_last_record_that_is_longer_than_the_body() -> None:
    body = bytes(encode_records([Record(0, 0, b"key", b"value")], 0, 0))
    for size in range(len(body)):
        assert not accepted(body[:size], 1)
    assert not accepted(bytes((body[0] + 2,)) + body[1:], 1)


def test_numbers_must_follow_each_other() -> None:
    for numbers in ([0, 2, 3], [0, 0, 1], [1, 2, 3], [0, -1, 2], [*range(100), 101], [*range(90), 89]):
        body = bytes(encode_records([Record(number, 0, None, b"v") for number in numbers], 0, 0))
        assert not accepted(body, len(numbers))


def test_a_null_key_in_the_middle_is_noticed() -> None:
    records = [Record(number, 0, b"", b"v") for number in range(100)]
    assert check_records(encode_records(records, 0, 0), 100) is True
    records[50].key = None
    assert check_records(encode_records(records, 0, 0), 100) is False


def test_huge_counts_end_where_the_bytes_end() -> None:
    assert not accepted(uniform(3), 2**31 - 1)
    assert not accepted(bytes(1000), 500)


def in_steps(body: bytes, count: int) -> tuple[bool, int]:
    """Returns whether every record has a key, and in how many steps the records were checked."""
    steps, taken = check_records_in_steps(body, count), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, taken
        taken += 1


def test_the_number_of_steps_follows_from_the_number_of_records() -> None:
    assert in_steps(uniform(10 * RECORDS_PER_STEP, key=b"k"), 10 * RECORDS_PER_STEP) == (True, 10)
    assert in_steps(uniform(RECORDS_PER_STEP + 1), RECORDS_PER_STEP + 1) == (False, 2)


def with_headers(*counts: int, key: bytes | None = b"k") -> bytes:
    records = [Record(number, 1000, key, b"", [("h", None)] * count) for number, count in enumerate(counts)]
    return bytes(encode_records(records, 0, 1000))


def test_many_headers_are_left_to_the_steps() -> None:
    assert check_records(with_headers(HEADERS_AT_ONCE), 1) is True
    for counts in ((HEADERS_AT_ONCE + 1,), (HEADERS_AT_ONCE // 2,) * 3, (0, 50_000, 1, 50_000, 0)):
        body = with_headers(*counts)
        with pytest.raises(ManyHeadersError):
            check_records(body, len(counts))
        keyed, taken = in_steps(body, len(counts))
        assert keyed
        assert taken >= sum(counts) // HEADERS_AT_ONCE
        assert in_steps(with_headers(*counts, key=None), len(counts))[0] is False


@pytest.mark.parametrize("spoil", [lambda body: body[:-1], lambda body: body + b"x", lambda body: body[:-3] + b"\1h\1"])
def test_faults_behind_many_headers_are_found(spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(KafkaError) as error:
        in_steps(spoil(with_headers(2 * HEADERS_AT_ONCE)), 1)
    assert error.value.code is ErrorCode.INVALID_RECORD


def test_a_record_ends_where_its_many_headers_do() -> None:
    body = bytearray(with_headers(2 * HEADERS_AT_ONCE))
    body[0] += 2  # the length of the record
    with pytest.raises(KafkaError, match="another length"):
        in_steps(bytes(body) + b"\0", 1)
