import warnings
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import read_header, stamp_crc
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

BYTES = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**50),
        key=BYTES,
        value=BYTES,
        headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def numbered(records: list[Record], base_offset: int) -> list[Record]:
    for number, record in enumerate(records):
        record.offset = base_offset + number
    return records


@given(RECORDS, st.integers(0, 2**60), st.sampled_from(Compression))
def test_a_batch_gives_back_its_records(records: list[Record], base_offset: int, compression: Compression) -> None:
    records = numbered(records, base_offset)
    batch = build_batch(records, base_offset=base_offset, compression=compression)
    assert read_records(memoryview(batch)) == records
    assert read_header(batch).compression is compression


@given(RECORDS, st.sampled_from(Compression))
def test_kafka_python_reads_what_we_build(records: list[Record], compression: Compression) -> None:
    records = numbered(records, 50)
    batch = build_batch(records, base_offset=50, compression=compression, producer_id=3, producer_epoch=1)
    theirs: Any = MemoryRecords(bytes(batch)).next_batch()
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch) == (3, 1)
    assert [
        Record(record.offset, record.timestamp, record.key, record.value, list(record.headers)) for record in theirs
    ] == records


@given(RECORDS, st.sampled_from(Compression))
def test_we_read_what_kafka_python_builds(records: list[Record], compression: Compression) -> None:
    builder: Any = DefaultRecordBatchBuilder(2, int(compression), 0, -1, -1, -1, 2**24)
    for record in numbered(records, 0):
        builder.append(record.offset, record.timestamp, record.key, record.value, record.headers)
    assert read_records(bytes(builder.build())) == records


def test_append_time_replaces_the_records_own() -> None:
    batch = build_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")], append_time=1234)
    assert [record.timestamp for record in read_records(batch)] == [1234, 1234]


def test_a_batch_may_be_empty() -> None:
    assert read_records(build_batch([])) == []


@pytest.mark.parametrize("compression", Compression)
def test_corrupt_records_raise_corrupt_message_and_nothing_else(compression: Compression) -> None:
    random = Random(1)
    batch = build_batch(
        [Record(number, 70 + number, b"key", b"value", [("name", b"content")]) for number in range(5)],
        compression=compression,
    )
    for _ in range(3000):
        spoilt = bytearray(batch)
        for _ in range(random.randint(1, 3)):
            spoilt[random.randrange(len(spoilt))] = random.randrange(256)
        try:
            read_records(spoilt)
        except KafkaError as error:
            assert error.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(("count", "reason"), [(2, "follow"), (4, "malformed"), (2**31 - 1, "malformed")])
def test_a_count_that_is_not_the_number_of_records_is_noticed(count: int, reason: str) -> None:
    batch = build_batch([Record(number, 0, None, b"v") for number in range(3)])
    batch[57:61] = count.to_bytes(4, "big")
    stamp_crc(batch, 0, len(batch))
    with pytest.raises(KafkaError, match=reason):
        read_records(batch)
