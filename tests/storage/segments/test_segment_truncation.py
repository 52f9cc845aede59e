"""The summary of a truncated segment is what a scan would find, though hardly any of it is read."""

import os

import crc32c
import pytest
from batch_samples import header_of, make_batch
from hypothesis import given
from hypothesis import strategies as st
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.protocol.batches.control_batches import hole
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.error_codes import KafkaError
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport, recover_segment
from tailrace.storage.segments.segment_truncation import checksum_before, prepare_truncation

PATH = "/r/00000000000000000050.log"
CONFIG = LogConfig(index_interval_bytes=200)
FACTS = ("base", "end", "epoch", "size", "checksum", "first_timestamp", "max_timestamp")


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_checksum_of_the_beginning_follows_from_the_whole_and_the_end(beginning: bytes, end: bytes) -> None:
    whole = crc32c.crc32c(beginning + end)
    assert checksum_before(whole, crc32c.crc32c(end), len(end)) == crc32c.crc32c(beginning)


def _segment(files: SimulatedFiles, count: int, *, first_time: int = 0) -> OpenSegment:
    """Makes a segment with gaps and timestamps that rise and fall; the first batches have none."""
    segment = SegmentMaker(OpenFiles(files), "/r", CONFIG, RecoveryReport()).new_segment(50)
    for number in range(count):
        timestamp = (number * 37) % 101 if number >= first_time else -1
        batch = make_batch(segment.end + number % 3, 2, size=61 + (number * 53) % 90, timestamp=timestamp, epoch=7)
        if number == 4:
            batch = hole(segment.end, segment.end + 9, 7)
        segment.append(batch, (header_of(batch),))
    return segment


def _make(count: int, how: str, first_time: int) -> tuple[SimulatedFiles, SealedSegment | OpenSegment]:
    files = SimulatedFiles()
    files.make_directories("/r")
    segment = _segment(files, count, first_time=first_time)
    if how == "open":
        return files, segment
    if how == "written":
        segment.reader.index.write()
        return files, segment
    return files, segment.seal(0)


@pytest.mark.parametrize("how", ["open", "written", "sealed"])
@pytest.mark.parametrize("first_time", [0, 12, 999])
def test_the_summary_of_the_rest_is_what_a_scan_finds(how: str, first_time: int) -> None:
    files, _ = _make(120, "open", first_time)
    positions = [position for position, _ in iterate(files.read(PATH))]
    for size in positions[1:6] + positions[6::7] + positions[-2:]:
        files, segment = _make(120, how, first_time)
        left = prepare_truncation(segment, size).apply()
        assert files.size(PATH) == size
        scanned = recover_segment(files.open(PATH), size, 50, trusted_end=0, interval_bytes=200)
        assert [getattr(left.summary, name) for name in FACTS] == [getattr(scanned.summary, name) for name in FACTS]
        facts = left.facts(0)
        assert facts.index_entries == len(scanned.entries)
        assert facts.index_checksum == crc32c.crc32c(scanned.entries.offsets.tobytes())
        assert facts.time_index_checksum == crc32c.crc32c(scanned.entries.times.tobytes())
        assert facts.last_indexed_position == scanned.entries.last_position
        if facts.index_entries:
            assert files.read("/r/00000000000000000050.index") == scanned.entries.offsets.tobytes()
        assert left.reader.index.new.next_position == scanned.entries.next_position


@pytest.mark.parametrize("place", [69, 70], ids=["before", "behind"])
@pytest.mark.parametrize("offset", [2**40, 0], ids=["large", "small"])
@pytest.mark.parametrize("how", ["open", "sealed"])
def test_a_flipped_offset_beside_the_end_prevents_the_truncation(how: str, place: int, offset: int) -> None:
    files, segment = _make(120, how, 0)
    positions = [position for position, _ in iterate(files.read(PATH))]
    size = files.size(PATH)
    files.open(PATH).write_at(positions[place], offset.to_bytes(8))
    if (place, offset) == (69, 0):
        assert prepare_truncation(segment, positions[70]).beginning.end < segment.end, "as if compaction had left a gap"
    else:
        with pytest.raises(KafkaError, match="out of order"):
            prepare_truncation(segment, positions[70])
    assert files.size(PATH) == size


def _plain_segment(how: str, count: int) -> tuple[SimulatedFiles, OpenSegment | SealedSegment]:
    """Makes a segment of one epoch without gaps, except where recovery has stamped it."""
    files = SimulatedFiles()
    files.make_directories("/r")
    segment = SegmentMaker(OpenFiles(files), "/r", CONFIG, RecoveryReport()).new_segment(50)
    for number in range(count):
        batch = make_batch(segment.end, 2, size=100, timestamp=number, epoch=7)
        segment.append(batch, (header_of(batch),))
    return files, segment if how == "open" else segment.seal(0)


@pytest.mark.parametrize(("kept", "number"), [(1, 1), (1, 7), (1, 12), (1, 19), (7, 7), (7, 12), (7, 19)])
@pytest.mark.parametrize("at", [0, 7, 8, 10, 11, 15, 16, 17, 20, 70], ids=lambda at: f"byte {at}")
@pytest.mark.parametrize("how", ["open", "sealed"])
def test_a_corrupt_header_among_removed_batches_does_not_matter(how: str, kept: int, at: int, number: int) -> None:
    files, segment = _plain_segment(how, 20)
    scanned = recover_segment(files.open(PATH), 100 * kept, 50, trusted_end=0, interval_bytes=200)
    for bit in (0, 3, 7):
        (byte,) = files.read(PATH)[100 * number + at : 100 * number + at + 1]
        files.open(PATH).write_at(100 * number + at, bytes([byte ^ 1 << bit]))
        left = prepare_truncation(segment, 100 * kept).beginning
        assert [getattr(left, name) for name in FACTS] == [getattr(scanned.summary, name) for name in FACTS]
        files.open(PATH).write_at(100 * number + at, bytes([byte]))
    assert prepare_truncation(segment, 100 * kept).apply().summary.checksum == scanned.summary.checksum


@pytest.mark.parametrize("at", [7, 15, 16, 20], ids=lambda at: f"byte {at}")
@pytest.mark.parametrize("stamped", [(50, 64), (54, 64), (54, 60), (50, 70)], ids=str)
async def test_a_corrupt_removed_header_does_not_matter_in_a_stamped_segment(stamped: tuple[int, int], at: int) -> None:
    """Recovery usually stamps what another log has as well, and the truncation begins there."""
    files, segment = _plain_segment("open", 20)
    await segment.restamp(*stamped, 9)
    scanned = recover_segment(files.open(PATH), 700, 50, trusted_end=0, interval_bytes=200)
    (byte,) = files.read(PATH)[1200 + at : 1200 + at + 1]
    files.open(PATH).write_at(1200 + at, bytes([byte ^ 4]))
    left = prepare_truncation(segment, 700).beginning
    assert [getattr(left, name) for name in FACTS] == [getattr(scanned.summary, name) for name in FACTS]


@pytest.mark.parametrize("at", [7, 15, 70, 20], ids=lambda at: f"byte {at}")
def test_corruption_in_the_rest_is_not_taken_for_its_content(at: int) -> None:
    """Both the removed part and the rest are corrupt."""
    files, segment = _plain_segment("open", 20)
    scanned = recover_segment(files.open(PATH), 700, 50, trusted_end=0, interval_bytes=200)
    for position in (1215, 300 + at):
        (byte,) = files.read(PATH)[position : position + 1]
        files.open(PATH).write_at(position, bytes([byte ^ 1]))
    left = prepare_truncation(segment, 700).beginning
    found = recover_segment(files.open(PATH), 700, 50, trusted_end=1000, interval_bytes=200)
    assert left.checksum not in (scanned.summary.checksum, found.summary.checksum), "it is reported"


@pytest.mark.parametrize("at", [16, 11], ids=["no batch", "longer than its segment"])
def test_a_rest_that_cannot_prove_itself_is_not_truncated(at: int) -> None:
    files, segment = _plain_segment("open", 20)
    files.open(PATH).write_at(100 * 7 + at, b"\xff")
    files.open(PATH).write_at(70, b"\xff")
    with pytest.raises(KafkaError):
        prepare_truncation(segment, 700)


def test_it_goes_on_as_an_open_segment() -> None:
    for how in ("open", "written", "sealed"):
        files, segment = _make(120, how, 0)
        size = [position for position, _ in iterate(files.read(PATH))][70]
        left = prepare_truncation(segment, size).apply()
        for number in range(60):
            batch = make_batch(left.end, size=80, timestamp=number, epoch=8)
            left.append(batch, (header_of(batch),))
        scanned = recover_segment(files.open(PATH), left.size, 50, trusted_end=0, interval_bytes=200)
        facts = left.facts(0)
        assert (facts.checksum, facts.end) == (scanned.summary.checksum, scanned.summary.end)
        assert facts.index_checksum == crc32c.crc32c(scanned.entries.offsets.tobytes())
        for _, header in iterate(files.read(PATH)):
            found = left.read(header.last_offset, 10, left.end, at_least_one=True)
            assert found is not None
            assert header_of(found.read()) == header


def test_little_of_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = SimulatedFiles()
    files.make_directories("/r")
    segment = SegmentMaker(OpenFiles(files), "/r", LogConfig(), RecoveryReport()).new_segment(50)
    for _ in range(3000):
        batch = make_batch(segment.end, size=1000)
        segment.append(batch, (header_of(batch),))
    counts: list[int] = []
    read_at = SimulatedFile.read_at

    def counting(file: SimulatedFile, position: int, count: int) -> bytes:
        counts.append(count)
        return read_at(file, position, count)

    monkeypatch.setattr(SimulatedFile, "read_at", counting)
    assert prepare_truncation(segment, 1000 * 2990).apply().end == 50 + 2990
    assert sum(counts) < 50_000


def test_a_damaged_index_is_rebuilt_before_it_is_truncated() -> None:
    files, segment = _make(120, "written", 0)
    facts = segment.facts(0) if isinstance(segment, OpenSegment) else segment.facts
    files.open("/r/00000000000000000050.index").write_at(5, os.urandom(8))
    sealed = SegmentMaker(OpenFiles(files), "/r", CONFIG, RecoveryReport()).sealed_segment(facts, is_synced=True)
    size = [position for position, _ in iterate(files.read(PATH))][70]
    left = prepare_truncation(sealed, size).apply()
    scanned = recover_segment(files.open(PATH), size, 50, trusted_end=0, interval_bytes=200)
    assert files.read("/r/00000000000000000050.index") == scanned.entries.offsets.tobytes()
    assert left.summary.checksum == scanned.summary.checksum
