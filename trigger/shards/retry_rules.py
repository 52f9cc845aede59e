"""The rules for a failed event: how long its next attempt waits, and when it is given up."""

from enum import Enum, auto

from tailrace.runtime.backoff import doubled_pause_seconds
from tailrace.trigger.config.trigger_config import Retry
from tailrace.trigger.work import Failure, FailureKind


class Verdict(Enum):
    """What happens to a failed event."""

    AGAIN = auto()
    EXHAUSTED = auto()
    """All attempts have failed, or another one would fail in the same way."""
    TOO_OLD = auto()


def verdict(retry: Retry, failure: Failure, attempts: int, age_seconds: float) -> Verdict:
    """Decides about an event after its last attempt has failed. `attempts` counts all attempts so far."""
    if failure.kind is FailureKind.UNREADABLE or attempts >= retry.attempts:
        return Verdict.EXHAUSTED
    if retry.max_age is not None and age_seconds >= retry.max_age:
        return Verdict.TOO_OLD
    return Verdict.AGAIN


def pause_seconds(retry: Retry, attempts: int, fraction: float) -> float:
    """Returns how long the next attempt waits. `fraction` is a random number from 0 to 1, which makes the pause up to
    half shorter, so that events that failed together are not retried together."""
    return doubled_pause_seconds(attempts, 1 - fraction, *retry.backoff)
