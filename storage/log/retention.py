"""Decides which segments have expired: by age, by the size of the log, and by the log start."""

from collections.abc import Sequence

from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.log_config import UNLIMITED, LogConfig
from tailrace.storage.manifest.manifest import SegmentFacts


def segments_to_remove(
    segments: Sequence[SegmentFacts], config: LogConfig, *, now_ms: int, log_start: int, high_watermark: int
) -> int:
    """Returns how many segments to remove, counted from the oldest. Uncommitted segments stay.

    The last one may be the open segment: the log then rolls before it removes.
    """
    removed = passed = 0
    excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    for segment in segments:
        if segment.end > high_watermark:
            break
        has_expired = (
            segment.end <= log_start
            or segment.size == 0
            or (config.deletes and _is_too_old(segment, config, now_ms))
            or (config.deletes and config.retention_bytes != UNLIMITED and 0 < segment.size <= excess_bytes)
        )
        # A segment without a timestamp, for example with only a bridge, goes together with the next expired one.
        if not has_expired and (_time_of(segment) >= 0 or not config.deletes):
            break
        excess_bytes -= segment.size
        passed += 1
        if has_expired:
            removed, passed = removed + passed, 0
    return removed


def _is_too_old(segment: SegmentFacts, config: LogConfig, now_ms: int) -> bool:
    """Returns whether the newest record has expired.

    A segment without timestamps, or with ones before 1970, does not age.
    """
    time = _time_of(segment)
    return config.retention_ms != UNLIMITED and time >= 0 and now_ms - time > config.retention_ms


def _time_of(segment: SegmentFacts) -> int:
    """Returns the largest timestamp of the records; without records, the timestamp of the first batch."""
    return segment.max_timestamp if segment.max_timestamp != NO_TIMESTAMP else segment.first_timestamp
