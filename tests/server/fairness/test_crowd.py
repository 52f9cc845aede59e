"""Tests the lines of new and busy connections: one at a time, with others in between, and both lines alike."""

import trio
import trio.testing

from tailrace.server.fairness.crowd import LEAD_SECONDS_MAX, Crowd, lead_after, new_is_next


async def _order(*wanted: tuple[str, bool]) -> list[str]:
    """Lets connections stand in line while another one takes its turn. Returns the order of their turns."""
    crowd, order = Crowd(), list[str]()
    await crowd.enter()

    async def take_turn(name: str, is_new: bool) -> None:
        await crowd.enter(is_new=is_new)
        order.append(name)
        crowd.leave()

    async with trio.open_nursery() as nursery:
        for name, is_new in wanted:
            nursery.start_soon(take_turn, name, is_new)
            await trio.testing.wait_all_tasks_blocked()
        assert order == []
        crowd.leave()
    return order


async def test_turns_are_taken_in_order(mock_clock: trio.testing.MockClock) -> None:
    assert await _order(("a", False), ("b", False), ("c", False)) == ["a", "b", "c"]


async def test_a_new_connection_does_not_wait_for_all_busy_ones(mock_clock: trio.testing.MockClock) -> None:
    wanted = [("a", False), ("b", False), ("new", True), ("newer", True), ("c", False)]
    assert await _order(*wanted) == ["new", "a", "newer", "b", "c"]


async def test_addresses_take_turns() -> None:
    crowd, order = Crowd(), list[str]()
    await crowd.enter("many")

    async def take_turn(address: str) -> None:
        await crowd.enter(address)
        order.append(address)
        crowd.leave()

    async with trio.open_nursery() as nursery:
        for address in ("many", "many", "many", "one"):
            nursery.start_soon(take_turn, address)
            await trio.testing.wait_all_tasks_blocked()
        crowd.leave()
    assert order == ["many", "one", "many", "many"]


async def test_both_lines_get_the_same_time(mock_clock: trio.testing.MockClock) -> None:
    crowd, order = Crowd(), list[str]()
    await crowd.enter(is_new=True)

    async def take_turn(name: str, seconds: float) -> None:
        await crowd.enter(is_new=name == "new")
        order.append(name)
        mock_clock.jump(seconds)
        crowd.leave()

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(take_turn, "busy", 0.002)
        for _ in range(8):
            nursery.start_soon(take_turn, "new", 0.0005)
        await trio.testing.wait_all_tasks_blocked()
        crowd.leave()
    assert order[0] == "busy"
    assert "".join(name[0] for name in order) in ("bnnnnbnnnnb", "bnnnnnbnnnb", "bnnnnbnnnbn")


def test_the_line_that_has_had_less_time_is_next() -> None:
    assert new_is_next(-0.001, was_new=True)
    assert not new_is_next(0.001, was_new=False)
    assert new_is_next(0.0, was_new=False)
    assert not new_is_next(0.0, was_new=True)


def test_a_line_that_was_alone_for_long_does_not_wait_as_long_afterwards() -> None:
    assert lead_after(0.001, 0.002, is_new=True) == 0.003
    assert lead_after(0.0, 0.002, is_new=False) == -0.002
    assert lead_after(0.0, 100.0, is_new=True) == LEAD_SECONDS_MAX
    assert lead_after(0.0, 100.0, is_new=False) == -LEAD_SECONDS_MAX


async def test_other_tasks_run_before_each_turn() -> None:
    crowd, seen = Crowd(), list[str]()

    async def other() -> None:
        while seen.count("turn") < 3:
            seen.append("other")
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(3):
            await crowd.enter()
            seen.append("turn")
            crowd.leave()
    assert seen.count("other") >= 2


async def test_a_connection_that_leaves_the_line_holds_up_nobody() -> None:
    crowd = Crowd()
    await crowd.enter()
    with trio.move_on_after(0):
        await crowd.enter()
    async with trio.open_nursery() as nursery:
        for scope in (cancelled := trio.CancelScope(), trio.CancelScope()):

            async def wait(scope: trio.CancelScope = scope) -> None:
                with scope:
                    await crowd.enter()
                    crowd.leave()

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
        cancelled.cancel()
        crowd.leave()  # calls the first in line, which has just been cancelled
    with trio.fail_after(5):
        await crowd.enter()
    crowd.leave()
