from struct import pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    assemble,
    crc_of,
    iterate,
    read_header,
    stamp,
    stamp_append_time,
)
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def some_batch(count: int = 3, base_offset: int = 0) -> bytearray:
    return build_batch(
        [Record(base_offset + number, 1000 + number, b"k", b"v%d" % number) for number in range(count)],
        base_offset=base_offset,
    )


def test_a_header_describes_its_batch() -> None:
    batch = build_batch(
        [Record(10, 5, None, b"a"), Record(14, 3, None, b"b")],
        base_offset=10,
        leader_epoch=7,
        compression=Compression.LZ4,
        producer_id=99,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        is_transactional=True,
    )
    header = read_header(batch)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (10, 14, 15)
    assert (header.leader_epoch, header.record_count, header.max_timestamp) == (7, 2, 5)
    assert header.compression is Compression.LZ4
    assert header.is_transactional
    assert header.has_producer
    assert not header.is_control
    assert not header.is_log_append_time
    assert (header.last_sequence, header.next_sequence) == (2, 3)
    assert header.crc == crc_of(batch, 0, len(batch))


def test_without_a_producer_there_is_no_sequence() -> None:
    header = read_header(some_batch())
    assert not header.has_producer
    assert header.last_sequence == -1


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_a_stamp_leaves_the_checksum_right(base_offset: int, leader_epoch: int) -> None:
    buffer = bytearray(b"before") + some_batch() + b"behind"
    stamp(memoryview(buffer), 6, base_offset, leader_epoch)
    header = read_header(buffer, 6)
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)
    assert crc_of(buffer, 6, header.size) == header.crc
    assert buffer.startswith(b"before")
    assert buffer.endswith(b"behind")


def test_append_time_is_the_time_of_every_record() -> None:
    buffer = bytearray(b"before") + some_batch() + b"behind"
    stamp_append_time(memoryview(buffer), 6, read_header(buffer, 6).size, 777)
    header = read_header(buffer, 6)
    assert crc_of(buffer, 6, header.size) == header.crc
    assert header.is_log_append_time
    assert [record.timestamp for record in read_records(buffer[6:-6])] == [777, 777, 777]
    assert buffer.endswith(b"behind")


@pytest.mark.parametrize(
    ("base", "delta", "timestamp"),
    [(5, -7, -2), (5, 2**63 - 6, 2**63 - 1), (5, 2**63 - 5, -(2**63)), (-(2**63), -1, 2**63 - 1), (0, 2**68 + 3, 3)],
)
def test_the_time_of_a_record_is_counted_with_64_bits(base: int, delta: int, timestamp: int) -> None:
    header = read_header(some_batch())
    header.base_timestamp = base
    assert header.timestamp_at(delta) == timestamp


def test_whole_batches_are_walked_up_to_a_truncated_one() -> None:
    first, second = some_batch(2), some_batch(3, base_offset=2)
    both = bytes(first + second)
    assert [(position, header.base_offset) for position, header in iterate(both)] == [(0, 0), (len(first), 2)]
    for cut in range(len(first), len(both)):
        assert [position for position, _ in iterate(memoryview(both)[:cut])] == [0]


@pytest.mark.parametrize(
    ("layout", "position", "value"),
    [(">i", 8, 48), (">i", 8, 0), (">i", 8, -1), (">i", 8, -(2**31)), (">b", 16, 1), (">b", 16, -1)],
)
def test_absurd_headers_are_refused(layout: str, position: int, value: int) -> None:
    batch = some_batch()
    pack_into(layout, batch, position, value)
    with pytest.raises(KafkaError) as refused:
        read_header(batch)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError):
        list(iterate(batch))


@pytest.mark.parametrize("size", [0, 1, HEADER_SIZE - 1])
def test_a_truncated_header_is_refused(size: int) -> None:
    with pytest.raises(KafkaError):
        read_header(some_batch()[:size])


def test_an_unknown_codec_is_refused_when_it_is_read() -> None:
    batch = some_batch()
    batch[22] |= 5
    with pytest.raises(KafkaError):
        _ = read_header(batch).compression


def test_a_batch_is_assembled_from_its_header() -> None:
    batch = some_batch()
    header = read_header(batch)
    header.base_offset, header.record_count = 5, 0
    empty = assemble(header, b"")
    assert len(empty) == HEADER_SIZE == header.size
    assert read_header(empty) == header
    assert isinstance(header, BatchHeader)
    assert header.crc == crc_of(empty, 0, HEADER_SIZE)
