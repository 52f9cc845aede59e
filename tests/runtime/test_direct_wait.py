"""What comes first for a task that waits for an epoll of its own: real descriptors, and Trio's real loop."""

import os
import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
import trio

from tailrace.runtime import direct_wait
from tailrace.runtime.direct_wait import (
    BUSY_SECONDS_MAX,
    BUSY_SECONDS_MAX_IF_EXPECTED,
    PAUSE_SECONDS_MIN,
    YIELD_SECONDS_MAX,
    DirectWait,
)


class _Waiting:
    """A task that was woken for its epoll, while Trio had nothing else to do."""

    def __init__(self, direct_wait: DirectWait, outgoing: socket.socket, incoming: socket.socket) -> None:
        self.direct_wait = direct_wait
        self.outgoing = outgoing
        self.incoming = incoming

    def may_wait(self) -> bool:
        """Whether it gets what has come for it."""
        self.outgoing.send(b"x")
        events = self.direct_wait.wait(9)
        self.incoming.recv(100)
        assert not events or [descriptor for descriptor, _ in events] == [self.incoming.fileno()]
        return bool(events)


@asynccontextmanager
async def _woken() -> AsyncIterator[_Waiting]:
    outgoing, incoming = socket.socketpair()
    with outgoing, incoming, select.epoll() as epoll:
        epoll.register(incoming, select.EPOLLIN)
        outgoing.send(b"x")
        await trio.lowlevel.wait_readable(epoll.fileno())
        incoming.recv(100)
        direct_wait = DirectWait()
        direct_wait.register(incoming.fileno())
        await _rest()
        yield _Waiting(direct_wait, outgoing, incoming)
        direct_wait.unregister(incoming.fileno())
        direct_wait.close()


class _Rests(trio.abc.Instrument):
    has_been = False

    def before_io_wait(self, timeout: float) -> None:
        self.has_been |= timeout > 0


async def _rest() -> None:
    """Trio has nothing to do for a moment. (Where others have the core a moment is over before Trio comes to wait.)"""
    rests = _Rests()
    trio.lowlevel.add_instrument(rests)
    while True:
        await trio.sleep(0.001)
        if rests.has_been:
            break
    trio.lowlevel.remove_instrument(rests)


async def test_nothing_comes_first_while_there_is_more_for_the_task_alone() -> None:
    async with _woken() as waiting:
        assert all(waiting.may_wait() for _ in range(3))


async def test_trio_is_to_wait_for_what_does_not_come_soon() -> None:
    async with _woken() as waiting:
        assert not waiting.direct_wait.wait(9)
        assert waiting.may_wait()


async def test_a_task_that_can_go_on_comes_first() -> None:
    async with _woken() as waiting, trio.open_nursery() as nursery:
        event = trio.Event()
        nursery.start_soon(event.wait)
        assert not waiting.may_wait()
        await _rest()
        assert waiting.may_wait()
        event.set()
        assert not waiting.may_wait()


async def test_what_another_task_waits_for_comes_first() -> None:
    outgoing, incoming = socket.socketpair()
    with outgoing, incoming:
        async with _woken() as waiting, trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.wait_readable, incoming)
            await _rest()
            assert waiting.may_wait()
            outgoing.send(b"x")
            assert not waiting.may_wait()


async def test_what_a_thread_has_done_comes_first() -> None:
    async with _woken() as waiting:
        trio.lowlevel.current_trio_token().run_sync_soon(waiting.outgoing.fileno)  # as threads say that they are done
        assert not waiting.may_wait()


async def test_where_trios_epoll_is_unknown_trio_does_all_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_wait, "trio_epoll", lambda: None)
    async with _woken() as waiting:
        assert not waiting.may_wait()


class _Epoll:
    """Of which a test says how long it is until something comes; each look takes a hundredth of a millisecond, and a
    core that is lent comes back when the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cores: int = 2) -> None:
        self.now = 0.0
        self.comes_at = 0.0
        self.slept_seconds = 0.0
        self.lent_seconds = 0.0
        monkeypatch.setattr(direct_wait, "perf_counter", lambda: self.now)
        monkeypatch.setattr(direct_wait, "usable_cores", lambda: cores)
        monkeypatch.setattr(os, "sched_yield", self.lend)

    def lend(self) -> None:
        self.now += self.lent_seconds

    def poll(self, timeout: float, _: int) -> list[tuple[int, int]]:
        self.now += 0.000_01
        if self.now < self.comes_at and timeout > 0:
            slept = min(timeout, self.comes_at - self.now)
            self.slept_seconds += slept
            self.now += slept
        return [(1, select.EPOLLIN)] if self.now >= self.comes_at else []

    def slept(self, direct_wait: DirectWait, comes_after_seconds: float) -> float:
        """How long a wait for that sleeps."""
        self.comes_at = self.now + comes_after_seconds
        self.slept_seconds = 0.0
        while not direct_wait._wait(self.poll, 9):
            pass
        return self.slept_seconds


SOON, LATE = BUSY_SECONDS_MAX / 2, 10 * BUSY_SECONDS_MAX


async def test_what_came_soon_the_last_time_is_waited_for_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch)
    with closing(DirectWait()) as waiting:
        assert epoll.slept(waiting, SOON)
        assert not epoll.slept(waiting, SOON)
        assert 0 < epoll.slept(waiting, LATE) < LATE
        assert epoll.slept(waiting, SOON), "it was late the last time"
        assert not epoll.slept(waiting, SOON)


async def test_what_is_expected_is_waited_for_awake_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch)
    with closing(DirectWait()) as waiting:

        def slept_for_what_is_expected(comes_after_seconds: float) -> float:
            waiting.expect_soon()
            return epoll.slept(waiting, comes_after_seconds)

        not_so_soon = (BUSY_SECONDS_MAX + BUSY_SECONDS_MAX_IF_EXPECTED) / 2
        assert slept_for_what_is_expected(not_so_soon)
        assert not slept_for_what_is_expected(not_so_soon)
        assert epoll.slept(waiting, not_so_soon), "nobody has said so again"
        assert slept_for_what_is_expected(not_so_soon), "it was late the last time"
        assert slept_for_what_is_expected(2 * BUSY_SECONDS_MAX_IF_EXPECTED) > 0
        assert slept_for_what_is_expected(not_so_soon)


async def test_nobody_stays_awake_on_the_only_core(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch, cores=1)
    with closing(DirectWait()) as waiting:
        assert all(epoll.slept(waiting, SOON) for _ in range(3))


async def test_nobody_stays_awake_who_is_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch)
    with closing(DirectWait(waits_awake=False)) as waiting:
        assert all(epoll.slept(waiting, SOON) for _ in range(3))


async def test_who_does_not_get_its_core_back_sleeps_ever_longer_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch)

    def seconds_asleep(waiting: DirectWait) -> float:
        """Until it waits awake again."""
        began = epoll.now
        while epoll.slept(waiting, SOON):
            pass
        return epoll.now - began

    with closing(DirectWait()) as waiting:
        seconds_asleep(waiting)
        pauses = []
        for _ in range(10):
            epoll.lent_seconds = 2 * YIELD_SECONDS_MAX
            epoll.slept(waiting, LATE)
            epoll.lent_seconds = 0.0
            kept = waiting._pause_seconds
            pauses.append(seconds_asleep(waiting))
            waiting._pause_seconds = kept  # as if that had not been worth it either
        assert [round(pause / PAUSE_SECONDS_MIN) for pause in pauses] == [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]
        assert not epoll.slept(waiting, SOON)  # which is worth it
        epoll.lent_seconds = 2 * YIELD_SECONDS_MAX
        epoll.slept(waiting, LATE)
        epoll.lent_seconds = 0.0
        assert seconds_asleep(waiting) < 2 * PAUSE_SECONDS_MIN
