"""A stopped process does nothing, and learns of everything at once when it goes on."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from simulation.determinism import run_seeded
from simulation.triggers.stopped_processes import ProcessHost, StoppableProcess


def run(main: Callable[[ProcessHost, trio.Nursery], Awaitable[None]]) -> None:
    async def whole() -> None:
        host = ProcessHost()
        with host.installed():
            async with trio.open_nursery() as nursery:
                host.root = nursery.cancel_scope
                await main(host, nursery)

    run_seeded(1, whole)


def test_tasks_and_timers_of_a_stopped_process_wait_and_those_of_others_go_on() -> None:
    ticks: list[tuple[str, float]] = []

    async def tick(name: str) -> None:
        for _ in range(4):
            await trio.sleep(1)
            ticks.append((name, trio.current_time()))

    async def main(host: ProcessHost, nursery: trio.Nursery) -> None:
        process = StoppableProcess(host, "one")
        with process.entered():
            nursery.start_soon(tick, "one")
        nursery.start_soon(tick, "other")
        await trio.sleep(1.5)
        process.stop()
        await trio.sleep(2)
        process.resume()
        assert process.last_stop == (1.5, 3.5)

    run(main)
    assert [at for name, at in ticks if name == "one"] == [1, 3.5, 4.5, 5.5]
    assert [at for name, at in ticks if name == "other"] == [1, 2, 3, 4]


def test_what_arrived_before_the_process_went_on_counts_before_its_timers() -> None:
    found: list[object] = []

    async def wait(event: trio.Event, seconds: float) -> None:
        with trio.move_on_after(seconds) as waiting:
            await event.wait()
        found.append((waiting.cancelled_caught, trio.current_time()))

    async def main(host: ProcessHost, nursery: trio.Nursery) -> None:
        process, event = StoppableProcess(host, "one"), trio.Event()
        with process.entered():
            nursery.start_soon(wait, event, 2)
            nursery.start_soon(wait, trio.Event(), 2)
        await trio.sleep(1)
        process.stop()
        await trio.sleep(2)
        event.set()
        await trio.sleep(2)
        process.resume()

    run(main)
    assert sorted(found, key=repr) == [(False, 5), (True, 5)]


def test_a_stopped_process_ends_with_the_simulation() -> None:
    async def main(host: ProcessHost, nursery: trio.Nursery) -> None:
        process = StoppableProcess(host, "one")
        with process.entered():
            nursery.start_soon(trio.sleep_forever)
        await trio.sleep(1)
        process.stop()
        raise ValueError("the simulation has failed")

    with pytest.RaisesGroup(ValueError):
        run(main)
