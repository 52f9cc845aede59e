from tailrace.runtime.backoff import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN, doubled_pause_seconds, spread_pause_seconds
from tailrace.runtime.chance import RandomChance


def test_the_first_try_does_not_wait() -> None:
    assert spread_pause_seconds(0, RandomChance(1)) == 0


def test_pauses_grow_up_to_a_bound_and_are_spread() -> None:
    chance = RandomChance(1)
    for failures, longest in [(1, PAUSE_SECONDS_MIN), (3, 4 * PAUSE_SECONDS_MIN), (10_000, PAUSE_SECONDS_MAX)]:
        pauses = [spread_pause_seconds(failures, chance) for _ in range(200)]
        assert longest / 2 <= min(pauses) < 0.6 * longest < 0.9 * longest < max(pauses) <= longest


def test_a_pause_has_bounds_of_its_own() -> None:
    assert [doubled_pause_seconds(failures, 1.0, 0.5, 3.0) for failures in (1, 2, 3, 4, 5000)] == [0.5, 1, 2, 3, 3]
    assert doubled_pause_seconds(2, 0.0, 0.5, 3.0) == 0.5
