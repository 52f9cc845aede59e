"""Where things are in a log. That every reader finds what it should: test_log_model."""

import pytest
from batch_samples import header_of, make_batch
from simulation.files import SimulatedFiles

from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments.segment_list import Segments
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport


@pytest.fixture
def segments() -> Segments:
    """Makes segments [0, 10), [10, 20) and the open one, [20, 25), with a batch of 100 bytes for each offset."""
    files = SimulatedFiles()
    files.make_directories("/r")
    maker = SegmentMaker(OpenFiles(files), "/r", LogConfig(), RecoveryReport())
    found = Segments([], maker.new_segment(0))
    for end in (10, 20, 25):
        while found.open.end < end:
            batch = make_batch(found.open.end, timestamp=found.open.end)
            found.open.append(batch, (header_of(batch),))
        if end < 25:
            found.sealed.append(found.open.seal(0))
            found.open = maker.new_segment(end)
    return found


@pytest.mark.parametrize(
    ("start", "end", "bases"),
    [
        (0, 25, [0, 10, 20]),
        (0, 10, [0]),
        (9, 11, [0, 10]),
        (10, 20, [10]),
        (12, 13, [10]),
        (20, 21, [20]),
        (25, 30, [20]),
    ],
)
def test_which_lie_between_two_offsets(segments: Segments, start: int, end: int, bases: list[int]) -> None:
    assert [segment.base for segment in segments.between(start, end)] == bases


def test_the_bytes_between_two_offsets_are_a_range_a_segment(segments: Segments) -> None:
    def ranges(base: int, end: int) -> list[tuple[int, int]]:
        return [(found.position, found.count) for found in segments.ranges(base, end)]

    assert ranges(0, 25) == [(0, 1000), (0, 1000), (0, 500)]
    assert ranges(7, 22) == [(700, 300), (0, 1000), (0, 200)]
    assert ranges(22, 23) == [(200, 100)]
    assert ranges(20, 20) == []
    assert ranges(25, 25) == []


def test_size_and_facts_of_all_segments(segments: Segments) -> None:
    assert segments.size == 2500
    assert [(facts.base, facts.end, facts.size) for facts in segments.facts()] == [
        (0, 10, 1000),
        (10, 20, 1000),
        (20, 25, 500),
    ]
    assert [segment.base for segment in segments.unsynced()] == [0, 10]
    segments.sealed[0].is_synced = True
    assert [segment.base for segment in segments.unsynced()] == [10]
    segments.sealed[0].is_synced, segments.sealed[1].is_synced = False, True
    assert [segment.base for segment in segments.unsynced()] == [0]
