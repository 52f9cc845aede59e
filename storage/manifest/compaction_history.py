"""The past compactions of a log: up to which offset it was compacted, and when.

The history tells where the next compaction begins, and which tombstones it may drop. A tombstone has no mark of its own
that says how old it is: `delete.retention.ms` counts from the first compaction whose end lies behind the tombstone.
"""

from collections.abc import Sequence

from msgspec import Struct

_TIME_STEPS = 16
"""Times are rounded up to this part of `delete.retention.ms`, so that a history never has many entries."""


class Compacted(Struct, frozen=True):
    """One compaction: at this time, no key had two records below this offset."""

    end: int
    """The offset after the last compacted record."""
    at_ms: int


def compacted_up_to(history: Sequence[Compacted]) -> int:
    """Returns the offset up to which the log is compacted."""
    return max((each.end for each in history), default=0)


def tombstones_end(history: Sequence[Compacted], now_ms: int, delete_retention_ms: int) -> int:
    """Returns the offset below which every tombstone is old enough to be dropped."""
    return max((each.end for each in history if each.at_ms + delete_retention_ms <= now_ms), default=0)


def add_compaction(
    history: Sequence[Compacted], end: int, now_ms: int, delete_retention_ms: int
) -> tuple[list[Compacted], Compacted]:
    """Returns the history with one more compaction and without entries that are no longer needed, and the new entry."""
    step_ms = max(1, delete_retention_ms // _TIME_STEPS)
    newest = Compacted(end, -(-now_ms // step_ms) * step_ms)
    droppable = tombstones_end(history, now_ms, delete_retention_ms)
    kept = [each for each in history if each.end >= droppable and each.at_ms != newest.at_ms]
    return [*kept, newest], newest


def truncate_history(history: Sequence[Compacted], log_end: int) -> list[Compacted]:
    """Returns the history of a log that was truncated to `log_end`.

    Records that are appended later are not compacted.
    """
    return [Compacted(min(each.end, log_end), each.at_ms) for each in history]
