import pytest
from trio.testing import assert_checkpoints, assert_no_checkpoints

from tailrace.runtime.turns import Turns


@pytest.mark.parametrize("steps", [(10,), (9, 1), (3, 30), (1,) * 10])
async def test_other_tasks_run_when_enough_was_done(steps: tuple[int, ...]) -> None:
    turns = Turns(10)
    for _ in range(2):
        *first, last = steps
        for done in first:
            turns.count += done
            with assert_no_checkpoints():
                await turns.take()
        turns.count += last
        with assert_checkpoints():
            await turns.take()
