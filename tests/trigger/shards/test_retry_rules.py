"""Expectations of the rules for a failed event."""

import pytest

from tailrace.trigger.config.trigger_config import Retry
from tailrace.trigger.shards.retry_rules import Verdict, pause_seconds, verdict
from tailrace.trigger.work import Failure, FailureKind


@pytest.mark.parametrize(
    ("kind", "attempts", "age", "expected"),
    [
        (FailureKind.RAISED, 1, 0.0, Verdict.AGAIN),
        (FailureKind.WORKER_ENDED, 2, 59.0, Verdict.AGAIN),
        (FailureKind.RAISED, 3, 0.0, Verdict.EXHAUSTED),
        (FailureKind.RAISED, 1, 60.0, Verdict.TOO_OLD),
        (FailureKind.UNREADABLE, 1, 0.0, Verdict.EXHAUSTED),
    ],
)
def test_an_event_is_retried_until_its_attempts_or_its_age_end(
    kind: FailureKind, attempts: int, age: float, expected: Verdict
) -> None:
    retry = Retry(attempts=3, max_age=60.0)
    assert verdict(retry, Failure(kind, 0, 1, "ValueError"), attempts, age) is expected


def test_pauses_double_up_to_the_longest_one_and_chance_shortens_them() -> None:
    retry = Retry(backoff=(0.5, 3.0))
    assert [pause_seconds(retry, attempts, 0.0) for attempts in (1, 2, 3, 4, 5000)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert pause_seconds(retry, 2, 1.0) == 0.5
