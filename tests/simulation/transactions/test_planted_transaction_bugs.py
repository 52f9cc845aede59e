"""Each planted bug in transactions is detected within a few seeds."""

from itertools import islice

import pytest
from simulation.transactions.planted_transaction_bugs import TRANSACTION_BUGS, PlantedTransactionBug
from simulation.transactions.transaction_run import simulate_transactions

SEEDS_MAX = 60
"""Most bugs are detected by the first seeds; the bound leaves room for those that depend on the schedule."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", TRANSACTION_BUGS, ids=lambda bug: bug.name)
def test_it_is_detected(bug: PlantedTransactionBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    found = (simulate_transactions(each).failure for each in islice(bug.scenarios(), SEEDS_MAX))
    failure = next((each for each in found if each is not None), None)
    assert failure is not None
    # The failure must come from the bug, and not from a patch that no longer fits the code around it.
    assert not isinstance(failure.__cause__, TypeError | AttributeError | NameError), failure.__cause__
