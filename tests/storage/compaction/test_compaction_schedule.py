"""When a log is compacted, up to which offset, and which segments are merged."""

import pytest
from msgspec.structs import replace

from tailrace.storage.compaction.compaction_schedule import compactable_end, filled_since, groups, is_due, must_roll
from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.leader_epochs import EpochStart
from tailrace.storage.manifest.manifest import SegmentFacts

CONFIG = LogConfig(compacts=True, segment_bytes_max=100, max_compaction_lag_ms=1000)
SEGMENTS = [
    SegmentFacts(0, 10, 0, 40, first_timestamp=0, max_timestamp=5),
    SegmentFacts(10, 20, 0, 40, first_timestamp=10, max_timestamp=15),
    SegmentFacts(20, 30, 0, 20, first_timestamp=20, max_timestamp=25),
]


@pytest.mark.parametrize(("high_watermark", "end"), [(0, 0), (9, 0), (10, 10), (29, 20), (30, 30), (99, 30)])
def test_only_what_is_committed_is_compacted(high_watermark: int, end: int) -> None:
    assert compactable_end(SEGMENTS, CONFIG, now_ms=0, stable_end=high_watermark) == end


@pytest.mark.parametrize(("now", "end"), [(0, 0), (104, 0), (105, 10), (115, 20), (125, 30)])
def test_records_stay_as_they_are_for_the_least_lag(now: int, end: int) -> None:
    config = replace(CONFIG, min_compaction_lag_ms=100)
    assert compactable_end(SEGMENTS, config, now_ms=now, stable_end=30) == end


@pytest.mark.parametrize(
    ("start", "ratio", "due"),
    [(0, 0.99, True), (0, 1.0, False), (10, 0.59, True), (10, 0.6, False), (20, 0.19, True), (30, 0.0, False)],
)
def test_it_is_due_by_the_share_of_what_is_new(start: int, ratio: float, due: bool) -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=ratio)
    assert is_due(SEGMENTS, config, now_ms=0, start=start, end=30) == due


@pytest.mark.parametrize(("now", "due"), [(1010, False), (1011, True)])
def test_it_is_due_by_the_age_of_what_is_new(now: int, due: bool) -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=1.0)
    assert is_due(SEGMENTS, config, now_ms=now, start=10, end=30) == due


def test_what_lies_beyond_the_end_does_not_count() -> None:
    assert not is_due(SEGMENTS, replace(CONFIG, min_cleanable_dirty_ratio=0.0), now_ms=10_000, start=10, end=10)


@pytest.mark.parametrize(
    ("config", "now", "rolls"),
    [
        (CONFIG, 1000, False),
        (CONFIG, 1001, True),
        (replace(CONFIG, segment_age_ms_max=500), 501, True),
        (replace(CONFIG, segment_age_ms_max=500), 500, False),
    ],
)
def test_the_open_segment_ends_when_its_records_waited_for_too_long(config: LogConfig, now: int, rolls: bool) -> None:
    assert must_roll(config, now_ms=now, since_ms=0) == rolls


def test_timestamps_count_only_for_the_first_open_segment() -> None:
    assert filled_since(None, 0, 3, 10) == (0, 3)
    assert filled_since(None, 0, 30, 10) == filled_since(None, 0, NO_TIMESTAMP, 10) == (0, 10)
    assert filled_since((0, 3), 0, 3, 20) == (0, 3), "the same one"
    assert filled_since((0, 3), 5, 3, 20) == (5, 20), "the next one"


def test_neighbours_are_merged_while_they_fit() -> None:
    assert groups(SEGMENTS, CONFIG) == [range(3)]
    assert groups(SEGMENTS, replace(CONFIG, segment_bytes_max=80)) == [range(2), range(2, 3)]
    assert groups(SEGMENTS, replace(CONFIG, segment_bytes_max=1)) == [range(1), range(1, 2), range(2, 3)]
    assert groups([], CONFIG) == []


def test_segments_of_different_epochs_are_merged() -> None:
    first, second, third = SEGMENTS
    recovered = replace(second, epoch=1, epoch_starts=(EpochStart(1, 19),))
    assert groups([first, recovered, replace(third, epoch=2)], CONFIG) == [range(3)]


def test_segments_are_not_merged_beyond_the_size_of_one() -> None:
    first, second, _ = SEGMENTS
    assert len(groups([first, replace(second, end=2**33)], CONFIG)) == 2
    assert len(groups([replace(first, index_entries=50), second], replace(CONFIG, index_bytes_max=400))) == 2
