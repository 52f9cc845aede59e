"""Markers are Kafka's own bytes, and no other batch is taken for one."""

import warnings
from typing import Any

import pytest

from tailrace.protocol.batches.control_batches import bridge, control_kind, hole
from tailrace.protocol.batches.record_batch import HEADER_SIZE, assemble, crc_of, read_header, stamp, write_header
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.batches.transaction_markers import MARKER_BYTES_MAX, Marker, is_marker, marker_batch, marker_of
from tailrace.protocol.error_codes import KafkaError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch

# What MemoryRecords.withEndTransactionMarker of Kafka 4.3.1 makes.
_ABORT_BY_KAFKA = bytes.fromhex(
    "0000000000000046000000420000000502c91cbc140030000000000000018bcfe5687b0000018bcfe5687b0000000000000fa0"
    "0007ffffffff000000012000000008000000000c00000000000900"
)
_COMMIT_BY_KAFKA = bytes.fromhex(
    "00000000000000460000004200000005023d226a5c0030000000000000018bcfe5687b0000018bcfe5687b0000000000000fa0"
    "0007ffffffff000000012000000008000000010c00000000000900"
)


def _marker(*, is_commit: bool = True) -> bytearray:
    return marker_batch(70, 5, 4000, 7, is_commit=is_commit, coordinator_epoch=9, now_ms=1_700_000_000_123)


def test_markers_have_the_bytes_of_kafka() -> None:
    assert _marker(is_commit=False) == _ABORT_BY_KAFKA
    assert _marker(is_commit=True) == _COMMIT_BY_KAFKA


@pytest.mark.parametrize("is_commit", [False, True])
def test_a_marker_is_read_as_it_was_written(*, is_commit: bool) -> None:
    batch = _marker(is_commit=is_commit)
    header = read_header(batch)
    assert is_marker(header)
    assert marker_of(header, batch) == Marker(is_commit, 9)
    assert header.has_producer
    assert header.last_sequence == -1
    assert crc_of(batch, 0, len(batch)) == header.crc
    assert len(batch) <= MARKER_BYTES_MAX


@pytest.mark.parametrize("is_commit", [False, True])
def test_another_implementation_reads_a_marker(*, is_commit: bool) -> None:
    theirs: Any = DefaultRecordBatch(bytes(_marker(is_commit=is_commit)))
    assert theirs.validate_crc()
    assert theirs.is_control_batch
    assert theirs.is_transactional
    (record,) = list(theirs)
    assert record.commit is is_commit
    assert record.abort is not is_commit


def test_a_marker_is_found_within_a_buffer_only_if_it_is_whole() -> None:
    records = build_batch([Record(7, 5, b"key", b"value")], base_offset=7)
    buffer = bytes(records + _marker())
    header = read_header(buffer, len(records))
    assert marker_of(header, buffer, len(records)) == Marker(True, 9)
    assert marker_of(header, memoryview(buffer), len(records)) == Marker(True, 9)
    assert marker_of(header, buffer[:-1], len(records)) is None


def test_a_marker_keeps_its_content_when_the_leader_stamps_it() -> None:
    batch = _marker()
    stamp(batch, 0, 900, 8)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (900, 8)
    assert marker_of(header, batch) == Marker(True, 9)


def test_a_marker_is_read_although_compaction_changed_the_timestamp_of_its_batch() -> None:
    (record,) = read_records(_marker())
    later = build_batch(
        [Record(70, record.timestamp + 10**12, record.key, record.value)],
        base_offset=70,
        producer_id=3,
        is_control=True,
        is_transactional=True,
    )
    header = read_header(later)
    for difference in (1, 63, 64, 8192, 10**12):
        header.base_timestamp = 0
        delta = difference << 1
        encoded = bytearray()
        while delta > 0x7F:
            encoded.append(delta & 0x7F | 0x80)
            delta >>= 7
        encoded.append(delta)
        rest = bytes(_marker())[HEADER_SIZE + 3 :]
        body = b"\0" + encoded + rest
        batch = assemble(header, bytes((len(body) << 1,)) + body)
        assert read_records(batch)[0].timestamp == difference
        assert marker_of(header, batch) == Marker(True, 9)
        assert len(batch) <= MARKER_BYTES_MAX


def test_our_control_batches_and_markers_are_never_taken_for_each_other() -> None:
    for ours in (hole(70, 90, 5), bridge(70, 5)):
        header = read_header(ours)
        assert not is_marker(header)
        assert marker_of(header, ours) is None
    for is_commit in (False, True):
        batch = _marker(is_commit=is_commit)
        assert control_kind(read_header(batch), batch) is None


def test_other_batches_are_no_markers() -> None:
    record = Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")
    data = build_batch([record], producer_id=3, is_transactional=True)
    assert marker_of(read_header(data), data) is None
    unknown = Record(0, 5, b"\0\0\0\2", b"\0\0\0\0\0\0")
    other = build_batch([unknown], producer_id=3, is_control=True, is_transactional=True)
    assert marker_of(read_header(other), other) is None
    emptied = build_batch([], producer_id=3, is_control=True, is_transactional=True)
    assert is_marker(read_header(emptied))
    assert marker_of(read_header(emptied), emptied) is None


def test_a_marker_with_any_corrupt_byte_is_at_worst_another_marker_or_none() -> None:
    whole = _marker()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x41
        try:
            header = read_header(damaged)
        except KafkaError:
            continue
        found = marker_of(header, damaged)
        assert found is None or isinstance(found, Marker)


def test_a_header_written_anew_keeps_the_marker() -> None:
    batch = _marker()
    header = read_header(batch)
    header.base_offset = 5
    write_header(batch, header)
    assert marker_of(read_header(batch), batch) == Marker(True, 9)
