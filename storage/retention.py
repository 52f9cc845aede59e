"""Which segments have had their time: by the age of their newest record, by the size of the log, and by its start."""

from collections.abc import Sequence

from .log_config import UNLIMITED, LogConfig
from .manifest import SegmentFacts
from .time_index import NO_TIMESTAMP


def segments_to_remove(
    segments: Sequence[SegmentFacts], config: LogConfig, *, now_ms: int, log_start: int, high_watermark: int
) -> int:
    """How many segments go, counted from the oldest. Nothing goes that is not committed yet.

    The last one may be the open segment: the log then rolls before it removes.
    """
    count = 0
    excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    for segment in segments:
        if segment.end > high_watermark:
            break
        if not (
            segment.end <= log_start
            or segment.size == 0
            or (config.deletes and _is_too_old(segment, config, now_ms))
            or (config.deletes and config.retention_bytes != UNLIMITED and 0 < segment.size <= excess_bytes)
        ):
            break
        excess_bytes -= segment.size
        count += 1
    return count


def _is_too_old(segment: SegmentFacts, config: LogConfig, now_ms: int) -> bool:
    """A segment whose records have no time at all does not age; one without records does, by its first batch."""
    newest = segment.max_timestamp if segment.max_timestamp != NO_TIMESTAMP else segment.first_timestamp
    return config.retention_ms != UNLIMITED and newest != NO_TIMESTAMP and now_ms - newest > config.retention_ms
