"""One write serves all callers that wait for it."""

import errno

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tailrace.storage.directory.shared_writes import SharedWrites

pytestmark = pytest.mark.trio

NO_ROOM = OSError(errno.ENOSPC, "no room for it", "/data/file")


class Disk:
    """A disk on which each write takes until the test ends it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.writes = SharedWrites(self._write)
        self.writing = 0
        """The number of the running write; 0 if there is none."""
        self.began = 0
        self.outcomes: dict[str, int | OSError] = {}
        """The outcomes of finished calls: the number of the last write, or the exception."""
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
        """Ends the running write; another one may have begun when this returns."""
        self._error = error
        self._over.set()
        await wait_all_tasks_blocked()

    async def ask(self, *names: str) -> trio.CancelScope:
        """Starts these callers one after another. Returns the cancel scope of the last one."""
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


async def test_a_caller_writes_if_no_write_is_running(disk: Disk) -> None:
    for number in (1, 2):
        await disk.ask(f"{number}")
        assert disk.writing == number
        assert f"{number}" not in disk.outcomes
        await disk.end()
    assert disk.outcomes == {"1": 1, "2": 2}


async def test_a_caller_during_a_write_waits_for_the_next_one(disk: Disk) -> None:
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


async def test_all_waiting_callers_wake_in_the_same_turn(disk: Disk, nursery: trio.Nursery) -> None:
    """A turn may take long when a leader is lost."""
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


async def test_a_failed_write_raises_in_its_caller_and_the_others_retry(disk: Disk) -> None:
    await disk.ask("first", "second", "third", "fourth")
    await disk.end()
    await disk.end(NO_ROOM)
    await disk.end(NO_ROOM)
    await disk.end()
    assert disk.outcomes["first"] == 1
    assert [disk.outcomes[name] for name in ("second", "third", "fourth")].count(NO_ROOM) == 2
    assert 4 in disk.outcomes.values()


async def test_a_permanent_failure_raises_in_all_present_and_later_callers(disk: Disk) -> None:
    await disk.ask("first", "second", "third")
    await disk.end()
    await disk.ask("late")
    disk.writes.failure = "the disk is broken"
    await disk.end(NO_ROOM)
    await disk.ask("later")
    waited = [str(disk.outcomes[name]) for name in ("second", "third", "late", "later")]
    assert sorted(waited) == sorted([str(NO_ROOM), *["the disk is broken"] * 3])
    assert disk.began == 2


async def test_if_the_writing_caller_is_cancelled_another_one_writes(disk: Disk) -> None:
    scope = await disk.ask("first")
    await disk.ask("second", "third")
    scope.cancel()
    await wait_all_tasks_blocked()
    assert disk.outcomes == {}
    assert disk.writing == 2
    await disk.end()
    assert disk.outcomes == {"second": 2, "third": 2}


async def test_a_cancelled_waiter_does_not_affect_the_others(disk: Disk) -> None:
    await disk.ask("first")
    scope = await disk.ask("second")
    await disk.ask("third")
    scope.cancel()
    await disk.end()
    await disk.end()
    assert disk.outcomes == {"first": 1, "third": 2}


async def test_no_write_starts_while_the_lock_is_held(disk: Disk) -> None:
    async with disk.writes.lock:
        await disk.ask("first", "second")
        assert not disk.writing
    await wait_all_tasks_blocked()
    assert disk.writing
    await disk.end()
    assert disk.outcomes == {"first": 1, "second": 1}, "both had asked before it began"
