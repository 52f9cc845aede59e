"""A sealed segment."""

from batch_samples import header_of, make_batch
from simulation.files import SimulatedFiles

from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport


def _sealed() -> SealedSegment:
    files = SimulatedFiles()
    files.make_directories("/r")
    maker = SegmentMaker(OpenFiles(files), "/r", LogConfig(index_interval_bytes=100), RecoveryReport())
    segment = maker.new_segment(10)
    for number in range(20):
        batch = make_batch(10 + 5 * number, 3, size=90, timestamp=number % 7)
        segment.append(batch, (header_of(batch),))
    return maker.sealed_segment(segment.facts(0), is_synced=True)


def test_a_gap_is_read_as_what_follows_it() -> None:
    sealed = _sealed()
    for offset in range(10, 108):
        found = sealed.read(offset, 90, 200, at_least_one=False)
        assert found is not None
        assert header_of(found.read()).last_offset >= offset > header_of(found.read()).base_offset - 3


def test_a_read_tells_no_batch_from_one_that_does_not_fit() -> None:
    sealed = _sealed()
    assert sealed.read(108, 90, 200, at_least_one=True) is None
    assert sealed.read(10, 90, 12, at_least_one=True) is None
    too_large = sealed.read(10, 89, 200, at_least_one=False)
    assert too_large is not None
    assert len(too_large) == 0


def test_its_newest_time_is_known_without_reading() -> None:
    sealed = _sealed()
    sealed.reader.log.get().truncate(0)
    assert sealed.max_timestamp(0, 200) == 6
    assert sealed.find_timestamp(7, 0, 200) is None


def test_a_closed_segment_says_so() -> None:
    sealed = _sealed()
    assert not sealed.is_closed
    sealed.close()
    assert sealed.is_closed
