"""A follower that left a moment ago may lag for a while before it leaves again."""

import math

from tailrace.broker.replication.lag_damping import PATIENCE_SECONDS_MIN, REMEMBERED_SECONDS, LagDamping
from tailrace.protocol.ids import SpuId

B = SpuId(2)


def _left(*times: float, patience_seconds_max: float = 100.0) -> LagDamping:
    damping = LagDamping()
    for at in times:
        damping.on_left(B, at, patience_seconds_max)
    return damping


def test_a_follower_that_never_left_has_to_leave_at_once() -> None:
    damping = _left()
    assert damping.leaves_at(B, 5.0) == -math.inf
    assert damping.next_departure(5.0) == math.inf


def test_a_follower_that_left_may_lag_for_a_while() -> None:
    damping = _left(5.0)
    assert damping.leaves_at(B, 6.0) == 6.0 + PATIENCE_SECONDS_MIN
    assert damping.leaves_at(B, 6.5) == 6.0 + PATIENCE_SECONDS_MIN
    assert damping.next_departure(6.5) == 6.0 + PATIENCE_SECONDS_MIN
    assert damping.next_departure(6.0 + PATIENCE_SECONDS_MIN) == math.inf


def test_a_follower_that_keeps_up_in_between_may_lag_again() -> None:
    damping = _left(5.0)
    damping.leaves_at(B, 6.0)
    damping.on_kept_up(B, 5.9)  # That was before it lagged.
    assert damping.leaves_at(B, 6.2) == 6.0 + PATIENCE_SECONDS_MIN
    damping.on_kept_up(SpuId(3), math.inf)
    damping.on_kept_up(B, 6.5)
    assert damping.next_departure(6.5) == math.inf
    assert damping.leaves_at(B, 7.0) == 7.0 + PATIENCE_SECONDS_MIN


def test_each_departure_doubles_the_time_up_to_the_limit() -> None:
    assert _left(5.0, 6.0).leaves_at(B, 7.0) == 7.0 + 2 * PATIENCE_SECONDS_MIN
    assert _left(5.0, 6.0, 7.0).leaves_at(B, 8.0) == 8.0 + 4 * PATIENCE_SECONDS_MIN
    assert _left(5.0, 6.0, 7.0, patience_seconds_max=3.0).leaves_at(B, 8.0) == 11.0


def test_an_old_departure_is_forgotten() -> None:
    later = 5.0 + REMEMBERED_SECONDS
    assert _left(5.0).leaves_at(B, later) == later + PATIENCE_SECONDS_MIN
    assert _left(5.0).leaves_at(B, later + 0.1) == -math.inf
    assert _left(5.0, later + 0.1).leaves_at(B, later + 1) == later + 1 + PATIENCE_SECONDS_MIN
