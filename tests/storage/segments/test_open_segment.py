"""The open segment."""

import pytest
from batch_samples import header_of, make_batch
from simulation.files import SimulatedFiles

from tailrace.runtime.file_range import FileRange
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport

pytestmark = pytest.mark.trio

CONFIG = LogConfig(segment_bytes_max=100_000, index_interval_bytes=200)


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/r")
    return files


def _segment(files: SimulatedFiles, count: int) -> OpenSegment:
    """Makes a segment of batches of two offsets and 70 bytes each."""
    segment = SegmentMaker(OpenFiles(files), "/r", CONFIG, RecoveryReport()).new_segment(50)
    for _ in range(count):
        batch = make_batch(segment.end, 2, size=70, timestamp=segment.end)
        segment.append(batch, (header_of(batch),))
    return segment


def _span(found: FileRange | None) -> tuple[int, int] | None:
    return None if found is None else (found.position, found.count)


@pytest.mark.parametrize("count", [1, 10, 700])  # more than the recent positions that it keeps
async def test_every_offset_is_found_with_its_batch(files: SimulatedFiles, count: int) -> None:
    segment = _segment(files, count)
    for offset in range(50, segment.end):
        batch = (offset - 50) // 2
        assert _span(segment.read(offset, 70, segment.end, at_least_one=False)) == (70 * batch, 70)
        assert _span(segment.read(offset, 69, segment.end, at_least_one=True)) == (70 * batch, 70)
        left = min(count - batch, 3)
        assert _span(segment.read(offset, 279, segment.end, at_least_one=False)) == (70 * batch, 70 * left)
    assert segment.read(segment.end, 1000, segment.end, at_least_one=True) is None


@pytest.mark.parametrize("count", [10, 700])
async def test_an_offset_in_a_gap_is_found_with_the_batch_behind_it(files: SimulatedFiles, count: int) -> None:
    segment = _segment(files, 1)
    for number in range(1, count):
        batch = make_batch(50 + 5 * number, 2, size=70)
        segment.append(batch, (header_of(batch),))
    for number in range(1, count):
        gap = range(50 + 5 * number - 3, 50 + 5 * number)
        for offset in gap:
            assert _span(segment.read(offset, 70, segment.end, at_least_one=False)) == (70 * number, 70)
            assert [header.base_offset for header, _ in segment.headers(offset, gap.stop + 1)] == [gap.stop]
            assert list(segment.headers(offset, gap.stop)) == []
            assert _span(segment.read(50, 10**6, offset, at_least_one=False)) == (0, 70 * number)


@pytest.mark.parametrize("count", [10, 700])
async def test_nothing_is_read_past_the_limit(files: SimulatedFiles, count: int) -> None:
    segment = _segment(files, count)
    for up_to in (50, 51, 52, 60, segment.end - 1):
        readable = (up_to - 50) // 2 * 70
        expected = (0, readable) if readable else None
        assert _span(segment.read(50, 10**6, up_to, at_least_one=True)) == expected


async def test_it_becomes_a_sealed_segment_that_reads_the_same(files: SimulatedFiles) -> None:
    segment = _segment(files, 300)
    expected = [_span(segment.read(offset, 500, 640, at_least_one=True)) for offset in range(50, 650)]
    sealed = segment.seal(7)
    assert [_span(sealed.read(offset, 500, 640, at_least_one=True)) for offset in range(50, 650)] == expected
    facts = sealed.facts
    assert (facts.base, facts.end, facts.size, facts.first_timestamp, facts.max_timestamp) == (50, 650, 21000, 50, 648)
    assert facts.producers_checksum == 7
    assert files.size("/r/00000000000000000050.index") == facts.index_entries * 8


async def test_a_sealed_segment_cannot_be_appended_to(files: SimulatedFiles) -> None:
    assert not hasattr(SealedSegment, "append")
    assert isinstance(_segment(files, 1).seal(0), SealedSegment)


async def test_a_failed_write_leaves_the_segment_as_it_was(files: SimulatedFiles) -> None:
    segment = _segment(files, 3)
    files.room_bytes = 69
    batch = make_batch(56, size=70)
    with pytest.raises(OSError, match="no space"):
        segment.append(batch, (header_of(batch),))
    assert (segment.end, segment.size, files.size("/r/00000000000000000050.log")) == (56, 210, 210)
