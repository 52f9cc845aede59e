import pytest
from msgspec.structs import replace

from tailrace.controller.inspection.segment_comparison import Comparison, compare, wanted_content
from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsResponse,
    OffsetRange,
    RangeContent,
    ReplicaSegment,
)

SEGMENT = ReplicaSegment(10, 20, 0, 0, 500, 0xAB)
LEADER = DescribeReplicaSegmentsResponse(log_start=0, log_end=25, segments=[SEGMENT, ReplicaSegment(20, 25)])
RESTAMPED = replace(LEADER, segments=[replace(SEGMENT, checksum=0xCD)])
MOVED = replace(LEADER, segments=[replace(SEGMENT, end=19), ReplicaSegment(19, 25)])


def _with_content(
    replica: DescribeReplicaSegmentsResponse, checksum: int, base: int = 10
) -> DescribeReplicaSegmentsResponse:
    return replace(replica, contents=[RangeContent(base, 20, checksum)])


def test_the_same_bytes_need_no_second_look() -> None:
    for copy in (LEADER, replace(LEADER), replace(LEADER, log_end=20, segments=[SEGMENT])):
        assert compare(SEGMENT, LEADER, copy) is Comparison.SAME
        assert wanted_content(SEGMENT, LEADER, copy) is None
    assert compare(ReplicaSegment(25, 25), LEADER, replace(LEADER, log_end=3)) is Comparison.SAME, "it is empty"


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, Comparison.MISSING),
        (0, 3, Comparison.MISSING),
        (20, 25, Comparison.MISSING),
        (0, 11, Comparison.SHORTER),
        (0, 19, Comparison.SHORTER),
    ],
)
def test_missing_parts_are_not_compared(start: int, end: int, expected: Comparison) -> None:
    copy = replace(RESTAMPED, log_start=start, log_end=end)
    assert compare(SEGMENT, LEADER, copy) is expected
    assert wanted_content(SEGMENT, LEADER, copy) is None


@pytest.mark.parametrize("copy", [RESTAMPED, MOVED])
def test_other_stamps_or_bounds_are_the_same_records_if_the_content_is(copy: DescribeReplicaSegmentsResponse) -> None:
    assert compare(SEGMENT, LEADER, copy) is Comparison.UNKNOWN
    assert wanted_content(SEGMENT, LEADER, copy) == OffsetRange(10, 20)
    leader = _with_content(LEADER, 7)
    assert compare(SEGMENT, leader, copy) is Comparison.UNKNOWN, "it did not answer a second time"
    assert compare(SEGMENT, LEADER, _with_content(copy, 7)) is Comparison.UNKNOWN
    assert compare(SEGMENT, leader, _with_content(copy, 7)) is Comparison.SAME_RECORDS
    assert compare(SEGMENT, leader, _with_content(copy, 8)) is Comparison.DIFFERENT


@pytest.mark.parametrize("compacts", ["leader", "copy"])
def test_copies_compact_on_their_own(compacts: str) -> None:
    leader, copy = _with_content(LEADER, 7), _with_content(RESTAMPED, 8)
    if compacts == "leader":
        leader.compacted_end = 11
    else:
        copy.compacted_end = 11
    assert compare(SEGMENT, leader, copy) is Comparison.COMPACTED
    assert wanted_content(SEGMENT, leader, copy) == OffsetRange(10, 20)
    assert compare(SEGMENT, leader, replace(copy, contents=leader.contents)) is Comparison.SAME_RECORDS
    leader.compacted_end = copy.compacted_end = 10
    assert compare(SEGMENT, leader, copy) is Comparison.DIFFERENT


def test_records_that_one_side_has_deleted_are_left_out() -> None:
    copy = replace(RESTAMPED, log_start=15)
    assert wanted_content(SEGMENT, LEADER, copy) == OffsetRange(15, 20)
    assert compare(SEGMENT, _with_content(LEADER, 7, 15), _with_content(copy, 7, 15)) is Comparison.SAME_RECORDS


def test_a_silent_spu_is_not_compared() -> None:
    silent = DescribeReplicaSegmentsResponse("SPU 3 is not online")
    assert compare(SEGMENT, LEADER, silent) is Comparison.UNKNOWN
    assert wanted_content(SEGMENT, LEADER, silent) is None
