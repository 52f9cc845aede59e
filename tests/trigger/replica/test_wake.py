"""Tests the signal that wakes the tasks of a replica."""

import trio
from trio.testing import wait_all_tasks_blocked

from tailrace.trigger.replica.wake import Wake


async def test_a_signal_wakes_the_tasks_that_wait_and_no_later_ones() -> None:
    wake, woken = Wake(), []

    async def wait(name: str) -> None:
        await wake.wait()
        woken.append(name)

    async with trio.open_nursery() as nursery:
        wake.set()
        nursery.start_soon(wait, "a")
        nursery.start_soon(wait, "b")
        await wait_all_tasks_blocked()
        assert woken == []
        wake.set()
        await wait_all_tasks_blocked()
        assert sorted(woken) == ["a", "b"]
