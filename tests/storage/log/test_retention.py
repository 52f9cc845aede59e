"""Which segments have expired."""

import pytest

from tailrace.storage.log.retention import segments_to_remove
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import SegmentFacts

FOREVER = LogConfig(retention_ms=-1, retention_bytes=-1)


def _segments(*ages: tuple[int, int]) -> list[SegmentFacts]:
    """Makes segments of ten offsets each from (size, max timestamp)."""
    return [
        SegmentFacts(10 * number, 10 * number + 10, size=size, first_timestamp=time, max_timestamp=time)
        for number, (size, time) in enumerate(ages)
    ]


def _count(segments: list[SegmentFacts], config: LogConfig, *, log_start: int = 0, high_watermark: int = 999) -> int:
    return segments_to_remove(segments, config, now_ms=1000, log_start=log_start, high_watermark=high_watermark)


def test_expired_segments_are_removed_up_to_the_first_young_one() -> None:
    config = LogConfig(retention_ms=100)
    assert _count(_segments((1, 800), (1, 899), (1, 900), (1, 1)), config) == 2
    assert _count(_segments((1, 1), (1, 1)), config) == 2
    assert _count(_segments((1, 1)), FOREVER) == 0


@pytest.mark.parametrize(("retention_bytes", "count"), [(0, 3), (99, 2), (100, 2), (101, 1), (250, 0), (300, 0)])
def test_a_segment_is_removed_by_size_only_if_enough_is_left(retention_bytes: int, count: int) -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=retention_bytes)
    assert _count(_segments((100, 1), (100, 1), (100, 1)), config) == count


def test_uncommitted_segments_stay() -> None:
    segments = _segments((1, 1), (1, 1), (1, 1))
    assert [_count(segments, LogConfig(retention_ms=1), high_watermark=end) for end in (0, 9, 10, 25, 30)] == [
        0,
        0,
        1,
        2,
        3,
    ]


def test_segments_below_the_log_start_are_removed_by_any_policy() -> None:
    segments = _segments((1, 1000), (1, 1000), (1, 1000))
    compacted = LogConfig(retention_ms=1, deletes=False, compacts=True)
    assert [_count(segments, compacted, log_start=start) for start in (0, 9, 10, 20)] == [0, 0, 1, 2]


def test_compaction_alone_deletes_nothing_by_age_or_size() -> None:
    config = LogConfig(retention_ms=1, retention_bytes=0, deletes=False, compacts=True)
    assert _count(_segments((1, 1), (1, 1)), config) == 0


def test_a_segment_emptied_by_compaction_keeps_no_other() -> None:
    assert _count(_segments((0, -1), (1, 1), (1, 999)), LogConfig(retention_ms=100)) == 2


def test_a_segment_without_a_timestamp_goes_with_the_next_one() -> None:
    config = LogConfig(retention_ms=100)
    assert _count(_segments((1, 1), (1, -1), (1, -1), (1, 2), (1, -1), (1, 999)), config) == 4
    assert _count(_segments((1, -1)), config) == 0
    assert _count(_segments((1, -1), (1, 1)), LogConfig(retention_ms=1, deletes=False, compacts=True)) == 0


def test_a_timestamp_before_1970_counts_as_none() -> None:
    config = LogConfig(retention_ms=100)
    old = SegmentFacts(0, 10, size=1, first_timestamp=-5000)
    recent = SegmentFacts(10, 20, size=1, first_timestamp=-5000, max_timestamp=999)
    aged = SegmentFacts(20, 30, size=1, first_timestamp=1, max_timestamp=1)
    assert [_count(each, config) for each in ([old], [old, recent], [old, recent, aged])] == [0, 0, 0]
    assert _count([old, aged], config) == 2


def test_excess_segments_are_removed_with_or_without_timestamps() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=100)
    assert _count(_segments((100, -1), (100, -1), (100, -1)), config) == 2
