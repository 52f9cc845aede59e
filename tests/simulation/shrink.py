"""Makes a failing seed smaller by leaving out faults as long as it still fails."""

from collections.abc import Callable

from msgspec.structs import replace

from .scenario import Scenario
from .simulation import Outcome

RUNS_MAX = 60


def shrunk(scenario: Scenario, simulate: Callable[[Scenario], Outcome]) -> tuple[list[int], Outcome]:
    """Returns the numbers of the remaining faults, and the outcome with them; it tries halves first, and then single
    faults."""
    faults = list(scenario.faults)
    kept = list(range(len(faults)))
    runs = 0

    def fails(numbers: list[int]) -> Outcome | None:
        nonlocal runs
        runs += 1
        outcome = simulate(replace(scenario, faults=[faults[number] for number in numbers]))
        return outcome if outcome.failure is not None else None

    worst = fails(kept)
    assert worst is not None, "the seed failed before, so it must fail again"
    size = max(len(kept) // 2, 1)
    while size and runs < RUNS_MAX:
        start = 0
        while start < len(kept) and runs < RUNS_MAX:
            fewer = kept[:start] + kept[start + size :]
            outcome = fails(fewer)
            if outcome is None:
                start += size
            else:
                kept, worst = fewer, outcome
        size //= 2
    return kept, worst
