"""Tests which connections stand in line with busy ones."""

import trio
import trio.testing

from tailrace.server.fairness.crowd import (
    BUSY_SECONDS,
    BUSY_STAYS_SECONDS,
    BUSY_TURN_SECONDS_MAX,
    NEW_TURN_SECONDS_MAX,
    Crowd,
)
from tailrace.server.fairness.place_in_line import PlaceInLine

SHORT, LONG = BUSY_SECONDS / 2, BUSY_SECONDS * 2


def test_a_connection_whose_work_takes_long_stands_in_line_for_a_while() -> None:
    place = PlaceInLine(Crowd(), "here")
    assert not place.is_busy(100)
    assert not place.note_work(100, 100 + SHORT)
    assert not place.is_busy(100)
    assert place.note_work(100, 100 + LONG)
    assert place.is_busy(100 + LONG)
    assert not place.is_busy(100 + LONG + BUSY_STAYS_SECONDS)


async def _turn(place: PlaceInLine, seconds: float, handled: int, *, has_more: bool = False) -> None:
    await place.enter()
    began = trio.current_time()
    assert place.turn_ends == began + (NEW_TURN_SECONDS_MAX if place.is_new else BUSY_TURN_SECONDS_MAX)
    place.end_turn(began + seconds, handled, has_more=has_more)
    place.leave()
    assert place.turn_ends is None


async def test_a_new_connection_stays_new_until_its_first_request_was_handled(
    mock_clock: trio.testing.MockClock,
) -> None:
    place = PlaceInLine(Crowd(), "here")
    place.begin()
    await _turn(place, LONG, 0)
    assert place.is_new
    await _turn(place, SHORT, 1)
    assert not place.is_new
    assert not place.is_busy(trio.current_time() + SHORT)


async def test_a_connection_leaves_the_line_after_a_while_without_long_turns(
    mock_clock: trio.testing.MockClock,
) -> None:
    place = PlaceInLine(Crowd(), "here")
    began = trio.current_time()
    for seconds, has_more in ((LONG, False), (SHORT, True)):
        place.begin()
        await _turn(place, seconds, 1, has_more=has_more)
        assert not place.is_new
        assert place.is_busy(began + BUSY_STAYS_SECONDS)
    await _turn(place, SHORT, 1)
    assert place.is_busy(began + BUSY_STAYS_SECONDS)
    assert not place.is_busy(began + SHORT + BUSY_STAYS_SECONDS)


async def test_a_new_connection_does_not_wait_behind_all_busy_ones() -> None:
    crowd = Crowd()
    first, busy, new = (PlaceInLine(crowd, "here") for _ in range(3))
    new.begin()
    order = []

    async def take(name: str, place: PlaceInLine) -> None:
        await place.enter()
        order.append(name)
        place.leave()

    await first.enter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, "busy", busy)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, "new", new)
        await trio.testing.wait_all_tasks_blocked()
        first.leave()
    assert order == ["new", "busy"]
