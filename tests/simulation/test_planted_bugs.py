"""Each planted bug is detected within so many seeds, because a simulation that detects nothing may be unable to."""

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
def test_it_is_detected(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    failure = failure_of(bug)
    assert failure is not None
    # The failure must come from the bug, and not from a patch that no longer fits the code around it.
    assert not isinstance(failure.__cause__, TypeError | AttributeError | NameError), failure.__cause__
