from tailrace.cluster.stream_state.replica_report import ReplicaReport, ShardReport
from tailrace.controller.triggers.replica_scaling import (
    BUSY_MAX,
    LATE_FOR_SECONDS,
    LATE_SECONDS,
    PAUSE_SECONDS,
    PROMPT_FOR_SECONDS,
    LagHistory,
    ReplicaCount,
    ReplicaLimits,
)

LIMITS = ReplicaLimits(1, 5, 12)


def report(lag_seconds: float, busy_workers: int = 0) -> ReplicaReport:
    shard = ShardReport(shard=0, lag=int(lag_seconds > 0), lag_seconds=lag_seconds)
    return ReplicaReport(
        topic="t", group="g", replica="replica1", workers=10, busy_workers=busy_workers, shards=(shard,)
    )


def decided(
    replicas: int, lag_seconds: float, for_seconds: float, busy: int = 0, limits: ReplicaLimits = LIMITS
) -> ReplicaCount | None:
    """What is decided if the lag has been the same for some time, after the pause."""
    history = LagHistory(0.0)
    at = PAUSE_SECONDS
    while at < PAUSE_SECONDS + for_seconds:
        history.note([report(lag_seconds, busy)], at)
        at += 2
    history.note([report(lag_seconds, busy)], PAUSE_SECONDS + for_seconds)
    return history.decide(PAUSE_SECONDS + for_seconds, replicas, limits)


def test_records_that_wait_for_too_long_start_twice_as_many_replicas() -> None:
    more = decided(2, LATE_SECONDS + 1, LATE_FOR_SECONDS)
    assert more == ReplicaCount(4, "records have waited for more than 10 s")
    assert decided(2, LATE_SECONDS + 1, LATE_FOR_SECONDS - 1) is None
    assert decided(2, LATE_SECONDS, LATE_FOR_SECONDS) is None
    assert decided(4, LATE_SECONDS + 1, LATE_FOR_SECONDS) == ReplicaCount(5, "records have waited for more than 10 s")


def test_the_limit_is_the_reason_if_nothing_can_be_started() -> None:
    late = decided(5, LATE_SECONDS + 1, LATE_FOR_SECONDS)
    assert late is not None
    assert late.replicas == 5
    assert late.reason.endswith("as many replicas as allowed: maxReplicas, 5")
    late = decided(3, LATE_SECONDS + 1, LATE_FOR_SECONDS, limits=ReplicaLimits(1, 5, 3))
    assert late is not None
    assert late.replicas == 3
    assert late.reason.endswith("one for each of 3 shards")


def test_a_replica_is_stopped_after_a_while_without_lag() -> None:
    fewer = decided(3, 0.0, PROMPT_FOR_SECONDS, busy=1)
    assert fewer is not None
    assert fewer.replicas == 2
    assert fewer.reason == "no record has waited for 2 s or more in 60 s, and the workers were busy for 10% of the time"
    assert decided(3, 0.0, PROMPT_FOR_SECONDS - 1) is None
    assert decided(3, 5.0, PROMPT_FOR_SECONDS) is None
    assert decided(1, 0.0, PROMPT_FOR_SECONDS) is None


def test_no_replica_is_stopped_whose_work_the_others_could_not_do() -> None:
    assert BUSY_MAX < 0.5 * 2
    assert decided(2, 0.0, PROMPT_FOR_SECONDS, busy=5) is None
    assert decided(4, 0.0, PROMPT_FOR_SECONDS, busy=5) is not None


def test_a_change_shows_its_effect_before_the_next_one() -> None:
    history = LagHistory(changed_at=100.0)
    for at in (100.0, 100.0 + PAUSE_SECONDS - 1):
        history.note([report(99.0)], at)
    assert history.decide(100.0 + PAUSE_SECONDS - 1, 1, LIMITS) is None
    assert history.decide(100.0 + PAUSE_SECONDS, 1, LIMITS) is not None


def test_one_late_record_is_forgotten_when_it_is_handled() -> None:
    history = LagHistory(0.0)
    history.note([report(LATE_SECONDS + 1)], 50.0)
    history.note([report(1.0)], 52.0)
    history.note([report(LATE_SECONDS + 1)], 60.0)
    assert history.decide(60.0, 1, LIMITS) is None
