"""`keyed_records` accepts a record if and only if it can be decoded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.batches.keyed_records import keep_last, keyed_records, record_times
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch, decode_records, encode_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError

RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.integers(0, 2**31 - 1),
        timestamp=st.integers(0, 2**62),
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    max_size=10,
)


@given(records=RECORDS, base=st.integers(0, 2**31 - 1))
def test_each_record_is_described_as_by_decoding(records: list[Record], base: int) -> None:
    body = bytes(encode_records(records, base, base))
    found = list(keyed_records(body, len(records)))
    assert [(base + f.offset_delta, base + f.timestamp_delta, f.key, f.has_value) for f in found] == [
        (record.offset, record.timestamp, record.key, record.value is not None) for record in records
    ]
    assert b"".join(body[record.start : record.end] for record in found) == body
    assert list(record_times(body, len(records))) == [(f.offset_delta, f.timestamp_delta) for f in found]


@given(data=st.binary(max_size=40), count=st.integers(0, 4))
def test_times_are_never_read_past_the_end_either(data: bytes, count: int) -> None:
    try:
        walked = [(record.offset_delta, record.timestamp_delta) for record in keyed_records(data, count)]
    except KafkaError:
        walked = None
    try:
        times = list(record_times(data, count))
    except KafkaError as error:
        times = None
        assert error.code == ErrorCode.CORRUPT_MESSAGE
    assert walked in (None, times)


@given(data=st.binary(max_size=40), count=st.integers(0, 4))
def test_bytes_that_are_not_records_are_refused_and_never_read_past_their_end(data: bytes, count: int) -> None:
    header = read_header(build_batch([]))
    header.record_count = count
    try:
        walked = [(r.offset_delta, r.key, r.has_value) for r in keyed_records(data, count)]
    except KafkaError as error:
        assert error.code == ErrorCode.CORRUPT_MESSAGE
        with pytest.raises(KafkaError):
            decode_records(header, data)
    else:
        assert all(end <= len(data) for _, end, *_ in keyed_records(data, count))
        assert len(walked) == count


@pytest.mark.parametrize("cut", [1, 5])
def test_a_truncated_or_extended_body_is_refused(cut: int) -> None:
    body = bytes(encode_records([Record(0, 0, b"key", b"value")], 0, 0))
    for damaged in (body[:-cut], body + bytes(cut)):
        with pytest.raises(KafkaError):
            list(keyed_records(damaged, 1))


@given(batches=st.lists(RECORDS, max_size=3))
def test_the_last_record_of_each_key_is_kept_where_it_stands(batches: list[list[Record]]) -> None:
    kept: dict[bytes, bytes | None] = {}
    expected: dict[bytes, bytes | None] = {}
    for records in batches:
        keep_last(bytes(encode_records(records, 0, 0)), len(records), kept)
        for record in records:
            expected.pop(record.key or b"", None)
            expected[record.key or b""] = record.value
    assert list(kept.items()) == list(expected.items())


@given(data=st.binary(max_size=40), count=st.integers(0, 4))
def test_bytes_that_are_not_records_are_not_remembered(data: bytes, count: int) -> None:
    try:
        walked = list(keyed_records(data, count))
    except KafkaError:
        with pytest.raises(KafkaError) as refused:
            keep_last(data, count, {})
        assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    else:
        kept: dict[bytes, bytes | None] = {}
        keep_last(data, count, kept)
        assert len(kept) <= len(walked)


def test_large_keys_and_values_are_kept() -> None:
    kept: dict[bytes, bytes | None] = {}
    records = [
        Record(number, 2**50, bytes(size), bytes(size)) for number, size in enumerate((63, 64, 8191, 8192, 70_000))
    ]
    keep_last(bytes(encode_records(records, 0, 0)), len(records), kept)
    assert [(len(key), len(value or b"")) for key, value in kept.items()] == [(len(r.key or b""),) * 2 for r in records]
