import math

from tailrace.broker.replication.lag_damping import CALM_SECONDS_MIN, REMEMBERED_SECONDS, LagDamping
from tailrace.protocol.ids import SpuId

A = SpuId(1)


def test_a_follower_that_never_left_is_not_held_back() -> None:
    damping = LagDamping()
    damping.on_lag(A, 1000, 10, 0.0)
    assert damping.may_enter(A, 0.0)


def test_a_follower_enters_when_it_has_kept_up_for_a_while() -> None:
    damping = LagDamping()
    damping.on_left(A, 5.0, 10.0)
    assert damping.next_entry_after(5.0) == 5.0 + CALM_SECONDS_MIN
    damping.on_lag(A, 6, 10, 5.5)
    damping.on_lag(A, 5, 10, 6.0)
    assert not damping.may_enter(A, 5.0 + CALM_SECONDS_MIN), "it lagged by more than half of what is allowed"
    assert damping.may_enter(A, 5.5 + CALM_SECONDS_MIN)
    assert damping.next_entry_after(5.5 + CALM_SECONDS_MIN) == math.inf


def test_a_follower_that_leaves_again_soon_is_held_back_longer_each_time_up_to_a_bound() -> None:
    damping = LagDamping()
    now, pauses = 0.0, []
    for _ in range(6):
        damping.on_left(A, now, 10.0)
        enters_at = damping.next_entry_after(now)
        pauses.append(enters_at - now)
        now = enters_at
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    damping.on_left(A, now + REMEMBERED_SECONDS + 1, 10.0)
    assert damping.may_enter(A, now + REMEMBERED_SECONDS + 1 + CALM_SECONDS_MIN), "the earlier times are forgotten"
