"""Logs and counts what a shard's line has decided: failed attempts, events that were given up, gaps in the log."""

from collections.abc import Iterable
from typing import assert_never

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.trigger.shards.line_effects import (
    AttemptFailed,
    Fact,
    GivenUp,
    Handled,
    LogTruncated,
    RecordsDeleted,
    ShardStopped,
)
from tailrace.trigger.work import Failure

from .replica_metrics import ReplicaMetrics


class LineFacts:
    """The log and the counters of one shard."""

    def __init__(self, metrics: ReplicaMetrics, logger: FilteringBoundLogger) -> None:
        """Takes a logger that names topic and shard."""
        self._metrics = metrics
        self._logger = logger

    def note(self, facts: Iterable[Fact]) -> None:
        """Logs and counts facts."""
        for fact in facts:
            self._note(fact)

    def _note(self, fact: Fact) -> None:
        metrics = self._metrics
        match fact:
            case Handled():
                metrics.events += fact.events
                if fact.events:
                    metrics.handler_seconds.observe(fact.handler_seconds / fact.events, fact.events)
            case AttemptFailed():
                metrics.failures[fact.failure.kind] += 1
                metrics.retries += 1
                self._logger.warning(
                    "event_failed",
                    **_fields(fact.failure),
                    attempt=fact.attempt,
                    next_attempt_seconds=round(fact.pause_seconds, 3),
                )
            case GivenUp():
                metrics.failures[fact.failure.kind] += 1
                if fact.is_dead_letter:
                    metrics.dead_letters += 1
                else:
                    metrics.skipped += 1
                self._logger.error(
                    "event_given_up",
                    **_fields(fact.failure),
                    attempts=fact.attempts,
                    is_dead_letter=fact.is_dead_letter,
                    is_too_old=fact.is_too_old,
                )
            case ShardStopped():
                if fact.failure is not None:
                    metrics.failures[fact.failure.kind] += 1
                self._logger.error("shard_stopped", offset=fact.offset, reason=fact.reason)
            case RecordsDeleted():
                self._logger.warning("unhandled_records_deleted", offset=fact.first, end=fact.end)
            case LogTruncated():
                self._logger.warning("handled_records_truncated", log_end=fact.end, was_read_until=fact.was_read_until)
            case _:
                assert_never(fact)


def _fields(failure: Failure) -> dict[str, object]:
    fields: dict[str, object] = {
        "offset": failure.offset,
        "kind": failure.kind.value,
        "error": failure.error,
        "message": failure.message,
    }
    if failure.end > failure.offset + 1:
        fields["end"] = failure.end
    if failure.position:
        fields["position"] = failure.position
    if failure.traceback:
        fields["traceback"] = failure.traceback
    return fields
