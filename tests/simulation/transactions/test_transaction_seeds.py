"""Simulates transactions from seeds: two in the fast suite, and more in the slow one."""

import pytest
from msgspec.structs import replace
from simulation.runner import POLICIES, Task, describe
from simulation.simulation import Outcome
from simulation.transactions.transaction_run import simulate_transactions
from simulation.transactions.transaction_scenario import TransactionScenario, transaction_scenario_of

SLOW_SEEDS = range(1000, 1012)
SEEDS_IN_A_CHUNK = 6


def _run(seed: int, policy: str = "live", **changes: object) -> Outcome:
    outcome = simulate_transactions(replace(transaction_scenario_of(seed, policy), **changes))
    if outcome.failure is not None:
        command = Task(seed, policy, 3, has_transactions=True).command(None)
        pytest.fail(f"{describe(outcome.failure)}\nreplay: {command}", pytrace=False)
    assert outcome.acknowledged > 0
    return outcome


def test_transactions_keep_their_promises_without_faults() -> None:
    _run(1, faults=(), faults_end=3.0)


def test_transactions_keep_their_promises_with_faults() -> None:
    assert _run(6).faults > 0


def test_a_seed_has_one_history() -> None:
    scenario: TransactionScenario = replace(transaction_scenario_of(2), faults=(), faults_end=2.0)
    assert simulate_transactions(scenario).digest == simulate_transactions(scenario).digest


@pytest.mark.slow
@pytest.mark.parametrize("first", SLOW_SEEDS[::SEEDS_IN_A_CHUNK])
def test_transactions_keep_their_promises(first: int) -> None:
    for seed in range(first, first + SEEDS_IN_A_CHUNK):
        _run(seed, POLICIES[seed % len(POLICIES)])
