"""Compares a copy of a segment with the leader's, from what both SPUs report about it.

The result never claims more than is known. Equal bounds, size and stored checksum mean equal bytes, including leader
epochs. If these differ, the records may still be equal: a replica that missed a recovery has older epochs in its
batches, and rolls its segments at other offsets. Then the contents of the range decide: the offset and the checksum of
every batch.
"""

from enum import StrEnum

from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsResponse,
    OffsetRange,
    ReplicaSegment,
)


class Comparison(StrEnum):
    SAME = "same"
    """Every byte is equal."""
    SAME_RECORDS = "same records"
    """The batches are equal, but have other leader epochs, or lie in segments with other bounds."""
    SHORTER = "shorter"
    """The copy's log ends within this segment; the part that it has was not compared."""
    MISSING = "missing"
    """The copy's log ends before this segment, or begins after it."""
    COMPACTED = "compacted"
    """The copies differ, but one of them was compacted, which each replica does at its own time."""
    DIFFERENT = "different"
    """The records differ."""
    UNKNOWN = "not compared"
    """There is not enough information."""


def compare(
    segment: ReplicaSegment, leader: DescribeReplicaSegmentsResponse, copy: DescribeReplicaSegmentsResponse
) -> Comparison:
    """Compares a segment of `leader` with `copy`.

    If `wanted_content` returns a range, call this again with the contents of that range from both.
    """
    if copy.error_message is not None:
        return Comparison.UNKNOWN
    if segment.base == segment.end or copy is leader:
        return Comparison.SAME
    if copy.log_end <= segment.base or copy.log_start >= segment.end:
        return Comparison.MISSING
    if copy.log_end < segment.end:
        return Comparison.SHORTER
    if any(_facts(each) == _facts(segment) for each in copy.segments):
        return Comparison.SAME
    asked = _common(segment, leader, copy)
    here, there = _content(leader, asked), _content(copy, asked)
    if here is not None and here == there:
        return Comparison.SAME_RECORDS
    if segment.base < max(leader.compacted_end, copy.compacted_end):
        return Comparison.COMPACTED
    return Comparison.UNKNOWN if None in (here, there) else Comparison.DIFFERENT


def wanted_content(
    segment: ReplicaSegment, leader: DescribeReplicaSegmentsResponse, copy: DescribeReplicaSegmentsResponse
) -> OffsetRange | None:
    """Returns the range whose contents both SPUs must report before the segment can be compared, or None."""
    if compare(segment, leader, copy) in (Comparison.UNKNOWN, Comparison.COMPACTED) and copy.error_message is None:
        return _common(segment, leader, copy)
    return None


def _facts(segment: ReplicaSegment) -> tuple[int, int, int, int]:
    return segment.base, segment.end, segment.size_bytes, segment.checksum


def _common(
    segment: ReplicaSegment, leader: DescribeReplicaSegmentsResponse, copy: DescribeReplicaSegmentsResponse
) -> OffsetRange:
    """Returns the part of the segment that neither replica has deleted."""
    return OffsetRange(max(segment.base, leader.log_start, copy.log_start), segment.end)


def _content(replica: DescribeReplicaSegmentsResponse, asked: OffsetRange) -> int | None:
    found = (each.checksum for each in replica.contents if (each.base, each.end) == (asked.base, asked.end))
    return next(found, None)
