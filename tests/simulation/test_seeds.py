"""Clusters in seeds: a few in the fast suite, hundreds in the slow one."""

import pytest
from simulation.runner import Task, describe
from simulation.simulation import simulate

FAST_SEEDS = range(6)
SLOW_CHUNKS, SEEDS_IN_A_CHUNK = 10, 30
REPLICAS = 1


def _run(seed: int, policy: str) -> None:
    task = Task(seed, policy, REPLICAS)
    outcome = simulate(task.scenario())
    if outcome.failure is not None:
        pytest.fail(f"{describe(outcome.failure)}\nreplay: {task.command(None)}", pytrace=False)
    assert outcome.acknowledged > 0


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_a_cluster_keeps_its_promises(seed: int) -> None:
    _run(seed, "live")


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(SLOW_CHUNKS))
def test_clusters_keep_their_promises(chunk: int) -> None:
    for seed in range(1000 + chunk * SEEDS_IN_A_CHUNK, 1000 + (chunk + 1) * SEEDS_IN_A_CHUNK):
        _run(seed, "live")
