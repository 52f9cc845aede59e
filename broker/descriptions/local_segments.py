"""Describes the segments of a local replica, and computes checksums of ranges of its log.

The Streaming Controller asks for them on behalf of people. The checksum of a segment tells whether two copies have the
same bytes. Good copies may differ: a copy that missed a recovery keeps older leader epochs in its batches and rolls its
segments elsewhere. The checksum of a range leaves epochs out: it covers the offsets of the batches and their own
checksums. It is computed by walking over the batches, in steps and up to a bounded number.
"""

import struct
from collections.abc import Sequence
from enum import StrEnum
from itertools import islice, pairwise

import crc32c
import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.protocol.batches.control_batches import ControlKind
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsRequest,
    DescribeReplicaSegmentsResponse,
    OffsetRange,
    RangeContent,
    ReplicaSegment,
)
from tailrace.storage.log.log import Log
from tailrace.storage.manifest.compaction_history import compacted_up_to
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.segments.segment_ends import may_have_bridge, sealed_by

SEGMENTS_MAX = 500
"""How many segments one response describes."""
BATCHES_MAX = 100_000
"""How many batches are read for all ranges of one request."""
_BATCHES_AT_ONCE = 500
_BATCH = struct.Struct("<qqI")


class SegmentState(StrEnum):
    OPEN = "open"
    SEALING = "sealing"
    """The segment was rolled, but its end is not committed yet."""
    RECOVERING = "recovering"
    """The segment was rolled, and a new leader has still to recover its end."""
    SEALED = "sealed"


async def describe_segments(
    replicas: ReplicaRegistry, request: DescribeReplicaSegmentsRequest
) -> DescribeReplicaSegmentsResponse:
    replica = replicas.find(request.topic_id, request.partition)
    if replica is None:
        damage = replicas.damaged.get((request.topic_id, request.partition))
        reason = "this SPU does not have the replica" if damage is None else damage.reason
        return DescribeReplicaSegmentsResponse(reason)
    try:
        return await _described(replica, request)
    except OSError as error:
        return DescribeReplicaSegmentsResponse(replica.offline_reason or str(error))
    except KafkaError as error:
        return DescribeReplicaSegmentsResponse(error.message)


async def _described(replica: Replica, request: DescribeReplicaSegmentsRequest) -> DescribeReplicaSegmentsResponse:
    log = replica.log
    contents = await _contents(log, request.ranges)
    segments = log.segments()
    count = sum(request.before < 0 or each.base < request.before for each in segments)
    first = max(0, count - max(0, min(request.segments_max, SEGMENTS_MAX)))
    with_next = list(pairwise([*segments, None]))[first:count]
    return DescribeReplicaSegmentsResponse(
        log_start=log.log_start,
        log_end=log.log_end,
        high_watermark=replica.high_watermark,
        compacted_end=compacted_up_to(log.compactions),
        older_count=first,
        segments=[_segment(replica, segment, next_segment) for segment, next_segment in with_next if segment],
        contents=contents,
    )


def _segment(replica: Replica, segment: SegmentFacts, next_segment: SegmentFacts | None) -> ReplicaSegment:
    log = replica.log
    ended_by = sealed_by(segment, next_segment, log.epochs, log.config, has_bridge=_has_bridge(log, segment))
    return ReplicaSegment(
        segment.base,
        segment.end,
        log.epochs.at(segment.base),
        log.epochs.at(max(segment.base, segment.end - 1)),
        segment.size,
        segment.checksum,
        _state(replica, segment, is_rolled=next_segment is not None or ended_by is not None),
        ended_by or "",
    )


def _has_bridge(log: Log, segment: SegmentFacts) -> bool:
    return may_have_bridge(segment, log.epochs) and any(
        kind is ControlKind.BRIDGE for _, kind in log.headers(segment.end - 1, segment.end)
    )


def _state(replica: Replica, segment: SegmentFacts, *, is_rolled: bool) -> SegmentState:
    if not is_rolled:
        return SegmentState.OPEN
    if segment.end <= replica.high_watermark:
        return SegmentState.SEALED
    return SegmentState.RECOVERING if replica.is_recovering else SegmentState.SEALING


async def _contents(log: Log, ranges: Sequence[OffsetRange]) -> list[RangeContent]:
    """Returns the checksums of the ranges that lie completely in the log, until BATCHES_MAX batches are read."""
    contents = []
    batches_allowed = BATCHES_MAX
    for each in ranges:
        offset, checksum = each.base, 0
        while batches_allowed > 0 and log.log_start <= each.base and offset < each.end <= log.log_end:
            # The log may change at each checkpoint, so each piece is looked up again.
            piece = list(islice(log.headers(offset, each.end), min(batches_allowed, _BATCHES_AT_ONCE)))
            for header, _ in piece:
                offset = header.next_offset
                checksum = crc32c.crc32c(_BATCH.pack(header.base_offset, offset, header.crc), checksum)
            batches_allowed -= len(piece)
            if not piece:
                offset = each.end  # only a gap is left
            await trio.lowlevel.checkpoint()
        if log.log_start <= each.base < each.end <= min(offset, log.log_end):
            contents.append(RangeContent(each.base, each.end, checksum))
    return contents
