"""Each planted bug in triggers is detected within a few seeds."""

from itertools import islice

import pytest
from simulation.triggers.planted_trigger_bugs import TRIGGER_BUGS, PlantedTriggerBug
from simulation.triggers.trigger_run import simulate_triggers

SEEDS_MAX = 40


@pytest.mark.slow
@pytest.mark.parametrize("bug", TRIGGER_BUGS, ids=lambda bug: bug.name)
def test_it_is_detected(bug: PlantedTriggerBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    found = (simulate_triggers(each).failure for each in islice(bug.scenarios(), SEEDS_MAX))
    failure = next((each for each in found if each is not None), None)
    assert failure is not None
    # The failure must come from the bug, and not from a patch that no longer fits the code around it.
    assert not isinstance(failure.__cause__, TypeError | AttributeError | NameError), failure.__cause__
    assert not any(name in str(failure) for name in ("TypeError", "AttributeError", "NameError")), failure
