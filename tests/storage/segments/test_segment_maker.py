"""Segments are made from the existing files."""

import pytest
from batch_samples import header_of, make_batch
from simulation.files import SimulatedFiles

from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import LogDamagedError, RecoveryReport

BATCH_BYTES = 100


class _Replica:
    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.files.make_directories("/r")
        self.report = RecoveryReport()

    def maker(self) -> SegmentMaker:
        """Returns a maker as after a start, with nothing open."""
        return SegmentMaker(OpenFiles(self.files), "/r", LogConfig(index_interval_bytes=BATCH_BYTES), self.report)

    def segment(self, end: int) -> OpenSegment:
        segment = self.maker().new_segment(0)
        while segment.end < end:
            batch = make_batch(segment.end, size=BATCH_BYTES)
            segment.append(batch, (header_of(batch),))
        return segment


def test_a_new_segment_finds_nothing_of_one_that_began_at_the_same_offset() -> None:
    replica = _Replica()
    replica.segment(5).seal(0)
    assert len(replica.files.list("/r")) == 3
    assert replica.maker().new_segment(0).size == 0
    assert replica.files.list("/r") == []


def test_a_segment_is_the_same_again_when_its_facts_are_known() -> None:
    replica = _Replica()
    facts = replica.segment(5).facts(0)
    for again in (replica.maker().open_segment(facts), replica.maker().sealed_segment(facts, is_synced=True)):
        assert (again.base, again.end, again.size) == (0, 5, 5 * BATCH_BYTES)
        assert again.position_of(3) == 3 * BATCH_BYTES
    assert replica.maker().open_segment(facts).facts(0) == facts
    assert replica.report == RecoveryReport(), "nothing was scanned, no index was rebuilt"


def test_a_torn_batch_is_truncated_unless_it_was_on_the_disk() -> None:
    replica = _Replica()
    file = replica.segment(5).reader.log.get()
    file.truncate(3 * BATCH_BYTES + 7)
    with pytest.raises(LogDamagedError, match="below offset 4"):
        replica.maker().recovered_segment(0, file.size(), trusted_end=4)
    again, recovered = replica.maker().recovered_segment(0, file.size(), trusted_end=3)
    assert (again.end, again.size, file.size()) == (3, 3 * BATCH_BYTES, 3 * BATCH_BYTES)
    assert recovered.truncation_reason is not None
