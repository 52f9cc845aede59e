"""What a copy of a segment has in common with that of the leader, from what both SPUs say of it.

Nothing here says more than is known. The same bounds, size and noted checksum mean the same bytes, with leader epochs.
Where these differ the records may still be the same: a copy that missed a recovery keeps older epochs on its batches,
and ends segments elsewhere. Then the content of the range decides: the place and the own checksum of every batch.
"""

from enum import StrEnum

from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsResponse,
    OffsetRange,
    ReplicaSegment,
)


class Comparison(StrEnum):
    SAME = "same"
    """To the byte."""
    SAME_RECORDS = "same records"
    """The same batches, with other leader epochs or in segments that end elsewhere."""
    SHORTER = "shorter"
    """It ends in this segment; what it has of it was not compared."""
    MISSING = "missing"
    """It ends before this segment, or begins behind it."""
    COMPACTED = "compacted"
    """Each replica removes what is superseded at a time of its own, and one of the two has."""
    DIFFERENT = "different"
    UNKNOWN = "not compared"


def compare(
    segment: ReplicaSegment, leader: DescribeReplicaSegmentsResponse, copy: DescribeReplicaSegmentsResponse
) -> Comparison:
    """Of a segment of `leader`; asked again with the content of both where `wanted_content` is not None."""
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
    """What both are to be asked about before anything can be said."""
    if compare(segment, leader, copy) in (Comparison.UNKNOWN, Comparison.COMPACTED) and copy.error_message is None:
        return _common(segment, leader, copy)
    return None


def _facts(segment: ReplicaSegment) -> tuple[int, int, int, int]:
    return segment.base, segment.end, segment.size_bytes, segment.checksum


def _common(
    segment: ReplicaSegment, leader: DescribeReplicaSegmentsResponse, copy: DescribeReplicaSegmentsResponse
) -> OffsetRange:
    """Of a segment whose first records are deleted, the rest."""
    return OffsetRange(max(segment.base, leader.log_start, copy.log_start), segment.end)


def _content(replica: DescribeReplicaSegmentsResponse, asked: OffsetRange) -> int | None:
    found = (each.checksum for each in replica.contents if (each.base, each.end) == (asked.base, asked.end))
    return next(found, None)
