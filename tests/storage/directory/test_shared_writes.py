"""One write for all who wait for it."""

import errno

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tailrace.storage.directory.shared_writes import SharedWrites

pytestmark = pytest.mark.trio

NO_ROOM = OSError(errno.ENOSPC, "no room for it", "/data/file")


class Disk:
    """On which each write takes until it is ended."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.writes = SharedWrites(self._write)
        self.writing = 0
        """Which write goes on; 0: none."""
        self.began = 0
        self.outcomes: dict[str, int | OSError] = {}
        """Of those who have asked and need not wait any more: the write after which that was so, or what was raised."""
        self._nursery = nursery
        self._over = trio.Event()
        self._error: OSError | None = None

    async def _write(self) -> None:
        assert not self.writing, "one at a time"
        self.began = self.writing = self.began + 1
        try:
            await self._over.wait()
            if self._error is not None:
                raise self._error
        finally:
            self.writing, self._over = 0, trio.Event()

    async def end(self, error: OSError | None = None) -> None:
        """The write that goes on; another one may have begun then."""
        self._error = error
        self._over.set()
        await wait_all_tasks_blocked()

    async def ask(self, *names: str) -> trio.CancelScope:
        """One after the other. The scope is that of the last one."""
        for name in names:
            scope = trio.CancelScope()
            self._nursery.start_soon(self._take_part, name, scope)
            await wait_all_tasks_blocked()
        return scope

    async def _take_part(self, name: str, scope: trio.CancelScope) -> None:
        with scope:
            try:
                await self.writes.ensure_written()
                self.outcomes[name] = self.began - bool(self.writing)
            except OSError as error:
                self.outcomes[name] = error


@pytest.fixture
def disk(nursery: trio.Nursery) -> Disk:
    return Disk(nursery)


async def test_who_asks_while_nobody_writes_writes(disk: Disk) -> None:
    for number in (1, 2):
        await disk.ask(f"{number}")
        assert disk.writing == number
        assert f"{number}" not in disk.outcomes
        await disk.end()
    assert disk.outcomes == {"1": 1, "2": 2}


async def test_who_comes_while_another_one_writes_waits_for_the_next_write(disk: Disk) -> None:
    await disk.ask("first", "second", "third")
    assert disk.writing == 1
    await disk.end()
    assert disk.outcomes == {"first": 1}
    assert disk.writing == 2
    await disk.ask("late")
    await disk.end()
    assert disk.outcomes == {"first": 1, "second": 2, "third": 2}
    await disk.end()
    assert disk.outcomes["late"] == disk.began == 3


async def test_all_who_wait_go_on_in_the_same_turn(disk: Disk, nursery: trio.Nursery) -> None:
    """One may take long when a leader is lost."""
    await disk.ask("first", *[f"{number}" for number in range(100)])
    await disk.end()
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    disk._over.set()
    async with trio.open_nursery() as counting:
        counting.start_soon(count_turns)
        while len(disk.outcomes) < 101:
            await trio.lowlevel.checkpoint()
        counting.cancel_scope.cancel()
    assert turns < 10
    assert disk.began == 2


async def test_a_write_that_fails_is_told_to_the_one_who_made_it_and_the_others_try_for_themselves(disk: Disk) -> None:
    await disk.ask("first", "second", "third", "fourth")
    await disk.end()
    await disk.end(NO_ROOM)
    await disk.end(NO_ROOM)
    await disk.end()
    assert disk.outcomes["first"] == 1
    assert [disk.outcomes[name] for name in ("second", "third", "fourth")].count(NO_ROOM) == 2
    assert 4 in disk.outcomes.values()


async def test_a_write_that_failed_for_good_fails_for_all_who_waited_for_it_and_all_who_come(disk: Disk) -> None:
    await disk.ask("first", "second", "third")
    await disk.end()
    await disk.ask("late")
    disk.writes.failure = "the disk is broken"
    await disk.end(NO_ROOM)
    await disk.ask("later")
    waited = [str(disk.outcomes[name]) for name in ("second", "third", "late", "later")]
    assert sorted(waited) == sorted([str(NO_ROOM), *["the disk is broken"] * 3])
    assert disk.began == 2


async def test_when_the_one_who_writes_is_cancelled_another_one_does(disk: Disk) -> None:
    scope = await disk.ask("first")
    await disk.ask("second", "third")
    scope.cancel()
    await wait_all_tasks_blocked()
    assert disk.outcomes == {}
    assert disk.writing == 2
    await disk.end()
    assert disk.outcomes == {"second": 2, "third": 2}


async def test_when_one_who_waits_is_cancelled_the_others_are_not(disk: Disk) -> None:
    await disk.ask("first")
    scope = await disk.ask("second")
    await disk.ask("third")
    scope.cancel()
    await disk.end()
    await disk.end()
    assert disk.outcomes == {"first": 1, "third": 2}


async def test_nobody_writes_while_another_one_holds_the_lock(disk: Disk) -> None:
    async with disk.writes.lock:
        await disk.ask("first", "second")
        assert not disk.writing
    await wait_all_tasks_blocked()
    assert disk.writing
    await disk.end()
    assert disk.outcomes == {"first": 1, "second": 1}, "both had asked before it began"
