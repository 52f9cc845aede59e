"""Simulates triggers from seeds: two in the fast suite, and more in the slow one."""

import pytest
from msgspec.structs import replace
from simulation.runner import Task, describe
from simulation.simulation import Outcome
from simulation.triggers.trigger_run import simulate_triggers
from simulation.triggers.trigger_scenario import TriggerScenario, trigger_scenario_of

SLOW_SEEDS = range(1000, 1024)
SEEDS_IN_A_CHUNK = 12


def _run(seed: int, **changes: object) -> Outcome:
    task = Task(seed, "live", 3, has_triggers=True)
    outcome = simulate_triggers(replace(task.scenario(), **changes))
    if outcome.failure is not None:
        command = task.command(None)
        pytest.fail(f"{describe(outcome.failure)}\nreplay: {command}", pytrace=False)
    assert outcome.acknowledged > 0
    return outcome


def test_triggers_keep_their_promises_without_faults() -> None:
    _run(16, faults=(), faults_end=4.0, batches=10)


def test_triggers_keep_their_promises_with_faults() -> None:
    assert _run(19).faults > 0


def test_triggers_store_their_output_exactly_once_with_faults() -> None:
    assert _run(20).faults > 0


def test_a_seed_has_one_history() -> None:
    scenario = trigger_scenario_of(16)
    short: TriggerScenario = replace(scenario, faults_end=5.0, batches=10)
    assert simulate_triggers(short).digest == simulate_triggers(short).digest


@pytest.mark.slow
@pytest.mark.parametrize("first", SLOW_SEEDS[::SEEDS_IN_A_CHUNK])
def test_triggers_keep_their_promises(first: int) -> None:
    for seed in range(first, first + SEEDS_IN_A_CHUNK):
        _run(seed)
