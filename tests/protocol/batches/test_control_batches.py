"""Holes and bridges are whole batches that Kafka's clients can read, and that we recognise."""

import warnings
from typing import Any

import pytest

from tailrace.protocol.batches.control_batches import (
    CONTROL_BATCH_BYTES_MAX,
    HOLE_OFFSETS_MAX,
    ControlKind,
    bridge,
    bridge_epoch,
    control_kind,
    hole,
)
from tailrace.protocol.batches.record_batch import crc_of, read_header, stamp
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.error_codes import KafkaError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch


def test_a_hole_covers_its_offsets() -> None:
    batch = hole(70, 90, 5)
    header = read_header(batch)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (70, 90, 5)
    assert header.is_control
    assert crc_of(batch, 0, len(batch)) == header.crc
    assert control_kind(header, batch) is ControlKind.HOLE


def test_a_bridge_has_one_offset_and_keeps_its_epoch_when_it_is_stamped_again() -> None:
    batch = bridge(90, 5)
    stamp(batch, 0, 90, 8)
    header = read_header(batch)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (90, 91, 8)
    assert crc_of(batch, 0, len(batch)) == header.crc
    assert control_kind(header, batch) is ControlKind.BRIDGE
    assert bridge_epoch(batch) == 5
    assert len(batch) == CONTROL_BATCH_BYTES_MAX


def test_the_checksum_distinguishes_control_batches_but_not_their_leaders() -> None:
    def content(batch: bytearray) -> int:
        return read_header(batch).crc

    assert content(hole(0, 5, 1)) == content(hole(0, 5, 2))
    assert content(hole(0, 5, 1)) != content(hole(0, 6, 1))
    assert content(bridge(0, 1)) != content(bridge(0, 2))
    assert content(hole(0, 1, 1)) != content(bridge(0, 1))


def test_the_record_of_a_control_batch_can_be_read_like_any_other() -> None:
    (record,) = read_records(bridge(90, 300))
    assert record == Record(90, -1, b"\x00\x00\x74\x42", b"\x00\x00\x00\x00\x01\x2c")
    (record,) = read_records(hole(90, 95, 300))
    assert record == Record(90, -1, b"\x00\x00\x74\x48", b"\x00\x00")


@pytest.mark.parametrize("batch", [hole(70, 90, 5), bridge(70, 5)])
def test_another_implementation_reads_them(batch: bytearray) -> None:
    theirs: Any = DefaultRecordBatch(bytes(batch))
    assert theirs.validate_crc()
    assert theirs.is_control_batch
    (record,) = list(theirs)
    assert record.offset == 70


def test_other_batches_are_no_control_batches_of_ours() -> None:
    marker = build_batch([Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")], producer_id=3, is_control=True)
    assert control_kind(read_header(marker), marker) is None
    records = build_batch([Record(0, 5, b"\0\0\x74\x42", b"\0\0\0\0\0\1")])
    assert control_kind(read_header(records), records) is None
    unknown = build_batch([Record(0, -1, b"\0\0\0\7", b"\0\0\0\0\0\0")], is_control=True)
    assert control_kind(read_header(unknown), unknown) is None
    short = build_batch([], is_control=True)
    assert control_kind(read_header(short), short) is None


def test_a_control_batch_with_any_corrupt_byte_is_at_worst_unrecognised() -> None:
    for batch in (hole(70, 90, 5), bridge(70, 5)):
        for position in range(len(batch)):
            damaged = bytearray(batch)
            damaged[position] ^= 0x41
            try:
                header = read_header(damaged)
            except KafkaError:
                continue
            if control_kind(header, damaged) is ControlKind.BRIDGE:
                bridge_epoch(damaged)


def test_control_batches_are_found_within_a_buffer() -> None:
    records = build_batch([Record(7, 5, b"key", b"value")], base_offset=7)
    buffer = bytes(records + bridge(8, 4))
    header = read_header(buffer, len(records))
    assert control_kind(header, buffer, len(records)) is ControlKind.BRIDGE
    assert bridge_epoch(buffer, len(records)) == 4
    assert control_kind(header, buffer[:-1], len(records)) is None


def test_a_hole_is_never_larger_than_a_batch_can_count() -> None:
    batch = hole(5, 5 + HOLE_OFFSETS_MAX, 1)
    assert read_header(batch).next_offset == 5 + HOLE_OFFSETS_MAX
    with pytest.raises(AssertionError):
        hole(5, 6 + HOLE_OFFSETS_MAX, 1)
