"""Which segments have had their time: by the age of their newest record, by the size of the log, and by its start."""

from collections.abc import Sequence

from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.log_config import UNLIMITED, LogConfig
from tailrace.storage.manifest.manifest import SegmentFacts


def segments_to_remove(
    segments: Sequence[SegmentFacts], config: LogConfig, *, now_ms: int, log_start: int, high_watermark: int
) -> int:
    """How many segments go, counted from the oldest. Nothing goes that is not committed yet.

    The last one may be the open segment: the log then rolls before it removes.
    """
    removed = passed = 0
    excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    for segment in segments:
        if segment.end > high_watermark:
            break
        has_had_its_time = (
            segment.end <= log_start
            or segment.size == 0
            or (config.deletes and _is_too_old(segment, config, now_ms))
            or (config.deletes and config.retention_bytes != UNLIMITED and 0 < segment.size <= excess_bytes)
        )
        # What has no time, such as a segment with a bridge alone, goes with the next one that has had its time.
        if not has_had_its_time and (_time_of(segment) >= 0 or not config.deletes):
            break
        excess_bytes -= segment.size
        passed += 1
        if has_had_its_time:
            removed, passed = removed + passed, 0
    return removed


def _is_too_old(segment: SegmentFacts, config: LogConfig, now_ms: int) -> bool:
    """A segment whose records have no time, or one before 1970, does not age by itself."""
    time = _time_of(segment)
    return config.retention_ms != UNLIMITED and time >= 0 and now_ms - time > config.retention_ms


def _time_of(segment: SegmentFacts) -> int:
    """Of the newest record; without records that of the first batch."""
    return segment.max_timestamp if segment.max_timestamp != NO_TIMESTAMP else segment.first_timestamp
