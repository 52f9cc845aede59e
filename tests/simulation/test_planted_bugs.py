"""A simulation that finds nothing may be one that cannot: each of these bugs is found within so many seeds."""

import pytest
from simulation.planted_bugs import PLANTED_BUGS, PlantedBug
from simulation.simulation import simulate

SEEDS_MAX = 100


def seeds_until_found(bug: PlantedBug) -> int | None:
    for count in range(SEEDS_MAX):
        if simulate(bug.task(count).scenario()).failure is not None:
            return count + 1
    return None


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED_BUGS, ids=lambda bug: bug.name)
def test_it_is_found(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert seeds_until_found(bug) is not None
