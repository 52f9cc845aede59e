"""What recovery finds in a segment that nothing vouches for."""

from struct import pack_into

import pytest
from bad_disk import BadDisk
from batch_samples import make_batch
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.control_batches import bridge, hole
from tailrace.protocol.batches.record_batch import crc_of, stamp
from tailrace.runtime.files import UnreadableError
from tailrace.storage.segments.segment_recovery import RecoveredSegment, recover_segment

BATCHES = [make_batch(10, 2, size=100, timestamp=5), make_batch(12, 1, size=200, timestamp=9), make_batch(13, size=150)]
WHOLE = b"".join(BATCHES)


def _recover(content: bytes, trusted_end: int = 0) -> RecoveredSegment:
    file = SimulatedFiles().open("/a", create=True)
    file.append(content)
    return recover_segment(file, len(content), 10, trusted_end=trusted_end, interval_bytes=100)


def test_an_intact_segment_survives() -> None:
    found = _recover(WHOLE)
    assert found.truncation_reason is None
    assert (found.summary.size, found.summary.end, found.summary.max_timestamp) == (450, 14, 9)
    assert list(found.entries.times) == [5, 9]


def test_an_empty_segment_is_whole() -> None:
    found = _recover(b"")
    assert (found.summary.size, found.summary.end, found.truncation_reason) == (0, 10, None)


@pytest.mark.parametrize("bad_position", [110, 250, 440])
def test_unreadable_bytes_are_not_truncated(bad_position: int) -> None:
    disk = BadDisk(WHOLE, bad_position=bad_position)
    with pytest.raises(UnreadableError):
        recover_segment(disk, len(WHOLE), 10, trusted_end=0, interval_bytes=100)


def test_only_headers_of_synced_batches_are_read() -> None:
    disk = BadDisk(WHOLE, bad_position=250)
    found = recover_segment(disk, len(WHOLE), 10, trusted_end=13, interval_bytes=100)
    assert (found.summary.size, found.truncation_reason) == (450, None)


def test_a_torn_write_is_truncated_to_the_last_whole_batch() -> None:
    for size in range(len(WHOLE)):
        whole = sum(size >= end for end in (100, 300))
        assert _recover(WHOLE[:size]).summary.size == (0, 100, 300)[whole]


def test_nothing_survives_from_the_batch_of_a_wrong_byte_on() -> None:
    for position in range(100, 300):
        damaged = bytearray(WHOLE)
        damaged[position] ^= 0x10
        # The checksum does not cover the offset and the epoch in the first 20 bytes, and some wrong values are possible
        # ones.
        if 100 <= position < 116:
            continue
        found = _recover(damaged)
        assert (found.summary.size, found.summary.end) == (100, 12)
        assert found.truncation_reason is not None


@pytest.mark.parametrize(
    ("content", "is_torn"),
    [
        (WHOLE[:-1], True),
        (WHOLE[:330], True),
        (WHOLE + b"\x55" * 200, True),
        (WHOLE[:180] + b"?" + WHOLE[181:], False),
        (WHOLE[:-1] + b"?", False),
        (WHOLE[:108] + b"\x40" + WHOLE[109:], False),
        (WHOLE[:308] + b"\x40" + WHOLE[309:], True),
        (WHOLE[:116] + b"\x01" + WHOLE[117:], False),
        (WHOLE[:110] + b"\x00\x00" + WHOLE[112:], False),
        (WHOLE[:300] + b"\x00" * 7 + b"\x01" + WHOLE[308:], False),
        (WHOLE + bytes(50) + WHOLE[100:], True),
    ],
    ids=[
        "the end is missing",
        "not even a header",
        "what nobody wrote",
        "a record has flipped",
        "in the last batch",
        "a length that is too large",
        "that of the last batch",
        "a magic byte",
        "a length that none has",
        "an offset",
        "what was there already",
    ],
)
def test_a_damaged_whole_batch_does_not_count_as_torn(content: bytes, is_torn: bool) -> None:
    found = _recover(content)
    assert found.truncation_reason is not None
    assert found.is_torn == is_torn


@pytest.mark.parametrize("offset", [13, 14, 200, 10_000])
def test_an_offset_that_jumps_ahead_is_wrong_and_not_the_next_one(offset: int) -> None:
    """Otherwise the offsets in between would count as compacted, on this replica and then everywhere."""
    damaged = bytearray(WHOLE)
    stamp(damaged, 100, offset, 0)
    found = _recover(damaged)
    assert (found.summary.size, found.summary.end) == (100, 12)
    assert "comes after" in (found.truncation_reason or "")


def test_gaps_left_by_compaction_are_accepted() -> None:
    after_a_gap = make_batch(20, size=100)
    assert _recover(WHOLE + after_a_gap + make_batch(30)).truncation_reason is None
    assert _recover(WHOLE + after_a_gap + make_batch(13)).summary.end == 21
    assert _recover(WHOLE + after_a_gap + make_batch(14)).summary.end == 14


@pytest.mark.parametrize("filler", [0, 1, 0xFF])
def test_pages_that_never_reached_the_disk_are_no_batches(filler: int) -> None:
    found = _recover(WHOLE[:300] + bytes([filler]) * 4096 + WHOLE[300:])
    assert found.summary.size == 300


def test_decreasing_offsets_are_truncated_and_decreasing_epochs_are_not() -> None:
    assert "comes after" in (_recover(WHOLE + make_batch(11)).truncation_reason or "")
    assert _recover(WHOLE + make_batch(20)).truncation_reason is None
    stamped = _recover(WHOLE + make_batch(14, epoch=3) + make_batch(15, epoch=3) + make_batch(16, epoch=1))
    assert (stamped.truncation_reason, stamped.summary.epoch) == (None, 1)
    assert stamped.epoch_evidence == [(0, 10, False), (3, 14, False), (1, 16, False)]


def test_a_bridge_shows_the_epoch_of_its_leader() -> None:
    later = bridge(14, 2)
    stamp(later, 0, 14, 5)
    found = _recover(WHOLE + later)
    assert found.epoch_evidence == [(0, 10, False), (5, 14, False), (2, 14, True)]
    assert found.ends_with_bridge
    assert not _recover(WHOLE + later + make_batch(15)).ends_with_bridge
    assert not _recover(WHOLE + later[:-1]).ends_with_bridge
    assert not _recover(WHOLE + hole(14, 20, 0)).ends_with_bridge


def test_a_batch_before_offset_0_is_invalid() -> None:
    batch = bytearray(make_batch(0))
    pack_into(">q", batch, 0, -5)
    assert "impossible" in (_recover(batch).truncation_reason or "")
    batch = bytearray(make_batch(10))
    pack_into(">i", batch, 23, -1)
    pack_into(">I", batch, 17, crc_of(batch, 0, len(batch)))
    assert _recover(batch).summary.size == 0


def test_below_the_trusted_end_checksums_are_not_computed() -> None:
    damaged = bytearray(WHOLE)
    damaged[150] ^= 1
    assert _recover(damaged, trusted_end=13).truncation_reason is None
    assert _recover(damaged, trusted_end=12).summary.size == 100


def test_a_batch_larger_than_what_is_read_at_once() -> None:
    large = make_batch(14, size=700_000)
    assert _recover(WHOLE + large).summary.end == 15
    assert _recover(WHOLE + large[:-1]).summary.end == 14
    large[-1] ^= 1
    assert _recover(WHOLE + large + make_batch(15)).summary.end == 14
