from tailrace.pipeline.segments.range_groups import grouped
from tailrace.pipeline.segments.segment_reading import SegmentRange


def test_small_ranges_share_a_task() -> None:
    ranges = [
        SegmentRange("t", "", 0, "", 0, each, each + 1, bytes_estimate=size)
        for each, size in enumerate((6, 3, 3, 12, 1))
    ]
    assert [[each.start for each in group] for group in grouped(ranges, 10)] == [[0, 1], [2], [3], [4]]
