"""The same seed has the same history, so that a failing seed can be examined again."""

import os
import subprocess
import sys

import pytest
import trio
from simulation.determinism import run_seeded
from simulation.scenario import group_scenario_of, scenario_of
from simulation.simulation import simulate

SEED = 3
KINDS = {"scenario_of": scenario_of, "group_scenario_of": group_scenario_of}


async def _who_comes_first() -> list[int]:
    order: list[int] = []

    async def come(number: int) -> None:
        await trio.sleep(1)
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(come, number)
    return order


def test_the_seed_determines_the_order_of_tasks() -> None:
    orders = [run_seeded(seed, _who_comes_first) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "hash_seed"), [("scenario_of", "1"), ("group_scenario_of", "2")])
def test_the_same_seed_has_the_same_history_in_every_process(kind: str, hash_seed: str) -> None:
    here = simulate(KINDS[kind](SEED))
    assert here.failure is None
    program = (
        f"from simulation.scenario import {kind}; from simulation.simulation import simulate;"
        f"print(simulate({kind}({SEED})).digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(os.path.dirname(__file__))}
    printed = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
    assert int(printed) == here.digest
