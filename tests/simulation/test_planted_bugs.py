"""A simulation that finds nothing may be one that cannot: each of these bugs is found within so many seeds."""

from itertools import islice

import pytest
from simulation.planted_bugs import PLANTED_BUGS, PlantedBug
from simulation.planted_group_bugs import GROUP_BUGS
from simulation.simulation import simulate

SEEDS_MAX = 100


def failure_of(bug: PlantedBug) -> BaseException | None:
    for scenario in islice(bug.scenarios(), SEEDS_MAX):
        failure = simulate(scenario).failure
        if failure is not None:
            return failure
    return None


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED_BUGS + GROUP_BUGS, ids=lambda bug: bug.name)
def test_it_is_found(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    failure = failure_of(bug)
    assert failure is not None
    # What is found is the bug, not that it does not fit any more to the code around it.
    assert not isinstance(failure.__cause__, TypeError | AttributeError | NameError), failure.__cause__
