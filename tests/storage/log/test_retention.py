"""Which segments have had their time."""

import pytest

from tailrace.storage.log.retention import segments_to_remove
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import SegmentFacts

FOREVER = LogConfig(retention_ms=-1, retention_bytes=-1)


def _segments(*ages: tuple[int, int]) -> list[SegmentFacts]:
    """Of ten offsets each: (size, max timestamp)."""
    return [
        SegmentFacts(10 * number, 10 * number + 10, size=size, first_timestamp=time, max_timestamp=time)
        for number, (size, time) in enumerate(ages)
    ]


def _count(segments: list[SegmentFacts], config: LogConfig, *, log_start: int = 0, high_watermark: int = 999) -> int:
    return segments_to_remove(segments, config, now_ms=1000, log_start=log_start, high_watermark=high_watermark)


def test_old_segments_go_until_the_first_that_is_not_old() -> None:
    config = LogConfig(retention_ms=100)
    assert _count(_segments((1, 800), (1, 899), (1, 900), (1, 1)), config) == 2
    assert _count(_segments((1, 1), (1, 1)), config) == 2
    assert _count(_segments((1, 1)), FOREVER) == 0


@pytest.mark.parametrize(("retention_bytes", "count"), [(0, 3), (99, 2), (100, 2), (101, 1), (250, 0), (300, 0)])
def test_by_size_a_segment_goes_only_if_enough_is_left(retention_bytes: int, count: int) -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=retention_bytes)
    assert _count(_segments((100, 1), (100, 1), (100, 1)), config) == count


def test_nothing_goes_that_is_not_committed() -> None:
    segments = _segments((1, 1), (1, 1), (1, 1))
    assert [_count(segments, LogConfig(retention_ms=1), high_watermark=end) for end in (0, 9, 10, 25, 30)] == [
        0,
        0,
        1,
        2,
        3,
    ]


def test_what_lies_below_the_log_start_goes_whatever_the_policy() -> None:
    segments = _segments((1, 1000), (1, 1000), (1, 1000))
    compacted = LogConfig(retention_ms=1, deletes=False, compacts=True)
    assert [_count(segments, compacted, log_start=start) for start in (0, 9, 10, 20)] == [0, 0, 1, 2]


def test_compaction_alone_deletes_nothing_by_age_or_size() -> None:
    config = LogConfig(retention_ms=1, retention_bytes=0, deletes=False, compacts=True)
    assert _count(_segments((1, 1), (1, 1)), config) == 0


def test_what_compaction_left_empty_keeps_nothing_else() -> None:
    assert _count(_segments((0, -1), (1, 1), (1, 999)), LogConfig(retention_ms=100)) == 2


def test_what_has_no_time_goes_with_what_follows() -> None:
    config = LogConfig(retention_ms=100)
    assert _count(_segments((1, 1), (1, -1), (1, -1), (1, 2), (1, -1), (1, 999)), config) == 4
    assert _count(_segments((1, -1)), config) == 0
    assert _count(_segments((1, -1), (1, 1)), LogConfig(retention_ms=1, deletes=False, compacts=True)) == 0


def test_a_time_before_1970_is_none() -> None:
    config = LogConfig(retention_ms=100)
    old = SegmentFacts(0, 10, size=1, first_timestamp=-5000)
    recent = SegmentFacts(10, 20, size=1, first_timestamp=-5000, max_timestamp=999)
    aged = SegmentFacts(20, 30, size=1, first_timestamp=1, max_timestamp=1)
    assert [_count(each, config) for each in ([old], [old, recent], [old, recent, aged])] == [0, 0, 0]
    assert _count([old, aged], config) == 2


def test_what_is_too_much_goes_whether_it_has_a_time_or_not() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=100)
    assert _count(_segments((100, -1), (100, -1), (100, -1)), config) == 2
