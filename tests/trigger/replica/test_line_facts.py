"""Tests how the facts of a shard's line are logged and counted."""

import structlog
from structlog.testing import capture_logs

from tailrace.trigger.replica.line_facts import LineFacts
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.shards.line_effects import (
    AttemptFailed,
    Fact,
    GivenUp,
    Handled,
    LogTruncated,
    RecordsDeleted,
    ShardStopped,
)
from tailrace.trigger.work import Failure, FailureKind

FAILURE = Failure(FailureKind.TIMED_OUT, 7, 8, "TimeoutError", "took too long", "trace", "billing.py:14 in bill")


def _noted(*facts: Fact) -> tuple[ReplicaMetrics, list[dict[str, object]]]:
    metrics = ReplicaMetrics()
    with capture_logs() as logged:
        LineFacts(metrics, structlog.get_logger().bind(topic="orders", shard=3)).note(facts)
    return metrics, [dict(each) for each in logged]


def test_handled_events_are_counted_and_not_logged() -> None:
    metrics, logged = _noted(Handled(4, 0.002), Handled(0, 0.0))
    assert (metrics.events, metrics.handler_seconds.sum, logged) == (4, 0.002, [])


def test_a_failure_is_logged_with_its_place() -> None:
    metrics, (logged,) = _noted(AttemptFailed(FAILURE, 2, 0.25))
    assert (metrics.failures, metrics.retries) == ({"timed-out": 1}, 1)
    assert logged == {
        "event": "event_failed",
        "log_level": "warning",
        "topic": "orders",
        "shard": 3,
        "offset": 7,
        "kind": "timed-out",
        "error": "TimeoutError",
        "message": "took too long",
        "position": "billing.py:14 in bill",
        "traceback": "trace",
        "attempt": 2,
        "next_attempt_seconds": 0.25,
    }


def test_events_that_are_given_up_count_as_dead_letters_or_as_skipped() -> None:
    metrics, logged = _noted(GivenUp(7, FAILURE, 5, True), GivenUp(8, FAILURE, 5, False))
    assert (metrics.dead_letters, metrics.skipped, metrics.failures["timed-out"]) == (1, 1, 2)
    assert [(each["event"], each["log_level"], each["is_dead_letter"]) for each in logged] == [
        ("event_given_up", "error", True),
        ("event_given_up", "error", False),
    ]


def test_gaps_and_stops_are_logged() -> None:
    metrics, logged = _noted(ShardStopped(7, "it failed", FAILURE), RecordsDeleted(7, 9), LogTruncated(4, 9))
    assert metrics.failures == {"timed-out": 1}
    assert [each["event"] for each in logged] == [
        "shard_stopped",
        "unhandled_records_deleted",
        "handled_records_truncated",
    ]
