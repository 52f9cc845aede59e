"""Simulates clusters from seeds: a few in the fast suite, more in the slow one, and any number with `make simulate`."""

import pytest
from simulation.runner import POLICIES, Task, describe
from simulation.simulation import simulate

FAST_SEEDS = range(1)
SLOW_SEEDS = range(1000, 1020)
SLOW_GROUP_SEEDS = range(1000, 1020)
SEEDS_IN_A_CHUNK = 10


def _run(task: Task) -> None:
    outcome = simulate(task.scenario())
    if outcome.failure is not None:
        pytest.fail(f"{describe(outcome.failure)}\nreplay: {task.command(None)}", pytrace=False)
    assert outcome.acknowledged > 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_a_cluster_keeps_its_promises(seed: int, policy: str) -> None:
    _run(Task(seed, policy, replicas=3))


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_single_spus_keep_their_promises(seed: int) -> None:
    _run(Task(seed, "live", replicas=1))


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_groups_keep_their_promises(seed: int) -> None:
    _run(Task(seed, "live", replicas=3, has_groups=True))


def test_a_lagging_replica_copies_from_followers() -> None:
    assert _copied_bytes(1026) > 10_000


@pytest.mark.slow
def test_followers_provide_copies_in_many_seeds() -> None:
    scenarios = {seed: Task(seed, "live", replicas=3).scenario() for seed in SLOW_SEEDS}
    copied = [_copied_bytes(seed) > 0 for seed, scenario in scenarios.items() if scenario.copies_early]
    assert sum(copied) > len(copied) / 3


def _copied_bytes(seed: int) -> int:
    outcome = simulate(Task(seed, "live", replicas=3).scenario())
    assert outcome.failure is None, describe(outcome.failure)
    return outcome.copied_bytes


@pytest.mark.parametrize("policy", ["majority"])
@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_clusters_keep_their_promises_with_small_turns(seed: int, policy: str) -> None:
    _run(Task(seed, policy, replicas=3, has_small_turns=True))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", SLOW_SEEDS[:10:SEEDS_IN_A_CHUNK])
def test_many_clusters_keep_their_promises_with_small_turns(first: int, policy: str) -> None:
    for seed in range(first, first + SEEDS_IN_A_CHUNK):
        _run(Task(seed, policy, replicas=3, has_small_turns=True))


@pytest.mark.slow
@pytest.mark.parametrize("first", SLOW_GROUP_SEEDS[::SEEDS_IN_A_CHUNK])
def test_many_groups_keep_their_promises(first: int) -> None:
    for seed in range(first, first + SEEDS_IN_A_CHUNK):
        _run(Task(seed, POLICIES[seed % len(POLICIES)], replicas=3, has_groups=True))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", SLOW_SEEDS[::SEEDS_IN_A_CHUNK])
def test_clusters_keep_their_promises(first: int, policy: str) -> None:
    for seed in range(first, first + SEEDS_IN_A_CHUNK):
        _run(Task(seed, policy, replicas=3))
