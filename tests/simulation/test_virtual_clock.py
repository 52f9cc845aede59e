"""A sleeper wakes when Trio would have woken it, in the order in which Trio would have."""

import math
from collections.abc import Awaitable, Callable

import pytest
import trio
from simulation.determinism import run_seeded
from simulation.virtual_clock import Sleeper, VirtualClock


async def _woken_at(sleeper: Sleeper, until: float, woken: list[float]) -> None:
    await sleeper.sleep(until)
    woken.append(trio.current_time())


async def test_a_sleeper_wakes_at_its_time_even_if_that_was_moved(
    virtual_clock: VirtualClock,
) -> None:
    for until, others, expected in [(5, [], 5), (5, [7], 7), (5, [7, 3], 3), (math.inf, [4], 4), (5, [7, 5], 5)]:
        sleeper, woken = Sleeper(), list[float]()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_woken_at, sleeper, began + until, woken)
            await trio.sleep(1)
            for other in others:
                sleeper.move(began + other)
        assert woken == [began + expected]


async def test_a_sleeper_does_not_wake_at_a_time_that_was_postponed(virtual_clock: VirtualClock) -> None:
    sleeper, woken = Sleeper(), list[float]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_woken_at, sleeper, 5, woken)
        await trio.sleep(1)
        sleeper.move(math.inf)
        await trio.sleep(10)
        assert trio.current_time() == 11
        assert not woken
        sleeper.wake()
    assert woken == [11]


async def test_it_can_be_cancelled_and_sleeps_again_afterwards(virtual_clock: VirtualClock) -> None:
    sleeper = Sleeper()
    with trio.move_on_after(2) as scope:
        await sleeper.sleep(5)
    assert scope.cancelled_caught
    assert trio.current_time() == 2
    sleeper.wake()
    await sleeper.sleep(6)
    assert trio.current_time() == 6
    await sleeper.sleep(1)
    assert trio.current_time() == 6


async def test_a_sleeper_that_is_cancelled_as_it_wakes_learns_that(virtual_clock: VirtualClock) -> None:
    sleeper, woken = Sleeper(), list[float]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_woken_at, sleeper, 5, woken)
        await trio.sleep(1)
        sleeper.wake()
        nursery.cancel_scope.cancel()
    assert not woken


async def _sleep_in_a_scope(until: float) -> None:
    with trio.CancelScope(deadline=until):
        await trio.sleep_forever()


async def _sleep_here(until: float) -> None:
    await Sleeper().sleep(until)


def _history(sleep_until: Callable[[float], Awaitable[None]], seed: int) -> list[tuple[int, float]]:
    """Returns the history of a few tasks that sleep, often until the same time, until the first cancels the others."""
    history = list[tuple[int, float]]()

    async def sleep(number: int, group: trio.Nursery) -> None:
        for turn in range(number % 4 + 2):
            await sleep_until(turn // 2)
            history.append((number, trio.current_time()))
        group.cancel_scope.cancel()

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for first in range(0, 40, 8):
                nursery.start_soon(run_group, first)

    async def run_group(first: int) -> None:
        async with trio.open_nursery() as group:
            for number in range(first, first + 8):
                group.start_soon(sleep, number, group)

    run_seeded(seed, run)
    return history


@pytest.mark.parametrize("seed", range(20))
def test_histories_equal_those_with_cancel_scopes(seed: int) -> None:
    assert _history(_sleep_here, seed) == _history(_sleep_in_a_scope, seed)
