"""Decides when a log is compacted, up to which offset, and which of its segments are merged."""

from collections.abc import Sequence

from tailrace.storage.indexes.offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX
from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import SegmentFacts


def compactable_end(sealed: Sequence[SegmentFacts], config: LogConfig, *, now_ms: int, stable_end: int) -> int:
    """Returns the end of the last segment that may be compacted: it and all before it are stable and old enough.

    Everything below `stable_end` is committed, and every transaction with records there is decided. Returns 0 if there
    is no such segment.
    """
    end = 0
    for segment in sealed:
        if segment.end > stable_end:
            break
        if config.min_compaction_lag_ms > 0 and segment.max_timestamp > now_ms - config.min_compaction_lag_ms:
            break
        end = segment.end
    return end


def is_due(sealed: Sequence[SegmentFacts], config: LogConfig, *, now_ms: int, start: int, end: int) -> bool:
    """Returns whether the segments in [start, end) are worth compacting, by their share of the log or by their age."""
    dirty = [segment for segment in sealed if segment.end > start and segment.end <= end]
    dirty_bytes = sum(segment.size for segment in dirty)
    bytes_up_to_end = sum(segment.size for segment in sealed if segment.end <= end)
    if dirty_bytes == 0:
        return False
    if dirty_bytes > config.min_cleanable_dirty_ratio * bytes_up_to_end:
        return True
    oldest = min((s.first_timestamp for s in dirty if s.first_timestamp != NO_TIMESTAMP), default=now_ms)
    return now_ms - oldest > config.max_compaction_lag_ms


Filled = tuple[int, int]
"""The base of an open segment, and the time since which it has had records."""


def filled_since(before: Filled | None, base: int, first_timestamp_ms: int, now_ms: int) -> Filled:
    """Returns since when the open segment has had records.

    Timestamps may lie far in the past for a long time. So they count only for the segment that was open when the log
    was opened, which is the first one that is looked at.
    """
    if before is None:
        return base, now_ms if first_timestamp_ms == NO_TIMESTAMP else min(first_timestamp_ms, now_ms)
    return before if before[0] == base else (base, now_ms)


def must_roll(config: LogConfig, *, now_ms: int, since_ms: int) -> bool:
    """Returns whether the open segment has had records for so long that they must become compactable.

    Kafka checks this only on appends, and so never compacts the last segment of an idle log.
    """
    return now_ms - since_ms > min(config.segment_age_ms_max, config.max_compaction_lag_ms)


def groups(sealed: Sequence[SegmentFacts], config: LogConfig) -> list[range]:
    """Returns which neighbouring segments are merged: those that fit into one segment with their current sizes.

    Their epochs do not matter. Each election begins a segment, so otherwise the number of segments would grow forever.
    """
    result: list[range] = []
    first = size = entries = 0
    for index, segment in enumerate(sealed):
        size += segment.size
        entries += segment.index_entries + 1
        if index > first and not (
            size <= config.segment_bytes_max
            and entries * ENTRY_BYTES <= config.index_bytes_max
            and segment.end - sealed[first].base <= RELATIVE_OFFSET_MAX
        ):
            result.append(range(first, index))
            first, size, entries = index, segment.size, segment.index_entries + 1
    return [*result, range(first, len(sealed))] if sealed else []
