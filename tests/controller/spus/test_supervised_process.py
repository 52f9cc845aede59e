from tailrace.controller.spus.supervised_process import (
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    STABLE_SECONDS,
    Restarts,
)


def test_pauses_grow_until_a_process_has_lived_for_long() -> None:
    restarts = Restarts()
    pauses = [restarts.on_ended(0.0) for _ in range(12)]
    assert pauses[0] == PAUSE_SECONDS_MIN
    assert pauses == sorted(pauses)
    assert pauses[-1] == PAUSE_SECONDS_MAX
    assert restarts.on_ended(STABLE_SECONDS) == PAUSE_SECONDS_MIN
    assert restarts.on_ended(STABLE_SECONDS - 1) == 2 * PAUSE_SECONDS_MIN
