"""The history is bounded and ordered, and each watch has its own cursor."""

import math

import pytest
from trio.testing import MockClock

from tailrace.controller.key_value.history import CHANGES_IN_A_ROW, History, HistoryWatch
from tailrace.controller.key_value.interface import Entry, EntryDeleted, EntryPut, FellBehind, StoreUnavailable


def changed(version: int, key: str = "a") -> EntryPut:
    return EntryPut(Entry(key, b"", version))


async def no_leases() -> float:
    return math.inf


def test_the_history_returns_the_change_after_a_revision() -> None:
    history = History(7)
    history.add([changed(8), EntryDeleted("a", 9)])
    assert history.after(7) == changed(8)
    assert history.after(8) == EntryDeleted("a", 9)
    assert history.after(9) is None
    assert history.after(10_000) is None


def test_the_history_is_bounded() -> None:
    history = History(0, changes_max=3)
    history.add(changed(version) for version in range(1, 6))
    assert history.after(2) == changed(3)
    with pytest.raises(FellBehind, match="of the 4 changes after revision 1 only 3 are kept"):
        history.after(1)


def test_changes_before_the_history_are_missing() -> None:
    with pytest.raises(FellBehind):
        History(7).after(6)
    assert History(7).after(7) is None


def test_a_revision_that_is_left_out_is_a_bug_here() -> None:
    with pytest.raises(AssertionError, match="each change has the next revision"):
        History(0).add([changed(2)])


async def test_a_watch_that_reads_too_slowly_falls_behind() -> None:
    history = History(0, changes_max=3)
    history.add([changed(1), changed(2)])
    watch = HistoryWatch(history, "", 0, no_leases)
    assert await anext(watch) == changed(1)
    history.add(changed(version) for version in range(3, 6))
    with pytest.raises(FellBehind):
        await anext(watch)


async def test_a_watch_passes_over_what_is_not_below_its_prefix() -> None:
    history = History(0)
    watch = HistoryWatch(history, "t/", 0, no_leases)
    history.add([changed(1, "t"), changed(2, "s/a"), changed(3, "t/a"), EntryDeleted("t/b", 4)])
    assert [await anext(watch), await anext(watch)] == [changed(3, "t/a"), EntryDeleted("t/b", 4)]


async def test_a_watch_lets_leases_run_out_while_it_waits(autojump_clock: MockClock) -> None:
    history = History(0)

    async def expire() -> float:
        if autojump_clock.current_time() >= 5:
            if history.revision == 0:
                history.add([EntryDeleted("leader", 1)])
            return math.inf
        return 5.0

    assert await anext(HistoryWatch(history, "", 0, expire)) == EntryDeleted("leader", 1)
    assert autojump_clock.current_time() == 5


async def test_a_watch_hands_out_many_changes_for_each_look_at_leases() -> None:
    history = History(0)
    history.add(changed(version) for version in range(1, 2 * CHANGES_IN_A_ROW + 1))
    looks = 0

    async def expire() -> float:
        nonlocal looks
        looks += 1
        return math.inf

    watch = HistoryWatch(history, "", 0, expire)
    handed_out = [await anext(watch) for _ in range(2 * CHANGES_IN_A_ROW)]
    assert handed_out == [changed(version) for version in range(1, 2 * CHANGES_IN_A_ROW + 1)]
    assert looks == 2


def test_closed_it_tells_nothing() -> None:
    history = History(0)
    history.close()
    with pytest.raises(StoreUnavailable):
        history.after(0)
