"""What a task waits for in the place of Trio's loop, with real descriptors and Trio's real loop."""

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
        """Sends something, and returns whether the task gets it without Trio's loop."""
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
    """Returns after Trio had nothing to do for a moment. On a busy machine that may take several tries."""
    rests = _Rests()
    trio.lowlevel.add_instrument(rests)
    while True:
        await trio.sleep(0.001)
        if rests.has_been:
            break
    trio.lowlevel.remove_instrument(rests)


async def test_the_task_waits_on_while_only_its_sockets_are_ready() -> None:
    async with _woken() as waiting:
        assert all(waiting.may_wait() for _ in range(3))


async def test_trio_waits_for_what_does_not_come_soon() -> None:
    async with _woken() as waiting:
        assert not waiting.direct_wait.wait(9)
        assert waiting.may_wait()


async def test_a_task_that_can_continue_comes_first() -> None:
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


async def test_the_result_of_a_thread_comes_first() -> None:
    async with _woken() as waiting:
        trio.lowlevel.current_trio_token().run_sync_soon(waiting.outgoing.fileno)  # as threads report their results
        assert not waiting.may_wait()


async def test_without_trios_epoll_trio_does_all_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_wait, "trio_epoll", lambda: None)
    async with _woken() as waiting:
        assert not waiting.may_wait()


class _Epoll:
    """A simulated epoll for which a test sets when something arrives. Each poll takes 10 µs; a yielded core returns
    when the test says."""

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
        """Returns how long a wait for an event after this time sleeps."""
        self.comes_at = self.now + comes_after_seconds
        self.slept_seconds = 0.0
        while not direct_wait._wait(self.poll, 9):
            pass
        return self.slept_seconds


SOON, LATE = BUSY_SECONDS_MAX / 2, 10 * BUSY_SECONDS_MAX


async def test_it_busy_waits_if_the_last_event_came_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch)
    with closing(DirectWait()) as waiting:
        assert epoll.slept(waiting, SOON)
        assert not epoll.slept(waiting, SOON)
        assert 0 < epoll.slept(waiting, LATE) < LATE
        assert epoll.slept(waiting, SOON), "it was late the last time"
        assert not epoll.slept(waiting, SOON)


async def test_it_busy_waits_longer_for_an_announced_event(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch)
    with closing(DirectWait()) as waiting:

        def slept_for_what_is_expected(comes_after_seconds: float) -> float:
            waiting.expect_soon()
            return epoll.slept(waiting, comes_after_seconds)

        not_so_soon = (BUSY_SECONDS_MAX + BUSY_SECONDS_MAX_IF_EXPECTED) / 2
        assert slept_for_what_is_expected(not_so_soon)
        assert not slept_for_what_is_expected(not_so_soon)
        assert epoll.slept(waiting, not_so_soon), "it was not announced again"
        assert slept_for_what_is_expected(not_so_soon), "it was late the last time"
        assert slept_for_what_is_expected(2 * BUSY_SECONDS_MAX_IF_EXPECTED) > 0
        assert slept_for_what_is_expected(not_so_soon)


async def test_it_does_not_busy_wait_on_a_single_core(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch, cores=1)
    with closing(DirectWait()) as waiting:
        assert all(epoll.slept(waiting, SOON) for _ in range(3))


async def test_it_does_not_busy_wait_if_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll(monkeypatch)
    with closing(DirectWait(waits_awake=False)) as waiting:
        assert all(epoll.slept(waiting, SOON) for _ in range(3))


async def test_each_loss_of_the_core_doubles_the_pause_until_busy_waiting_pays_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
            waiting._pause_seconds = kept  # as if busy-waiting had not paid off
        assert [round(pause / PAUSE_SECONDS_MIN) for pause in pauses] == [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]
        assert not epoll.slept(waiting, SOON)  # busy-waiting pays off
        epoll.lent_seconds = 2 * YIELD_SECONDS_MAX
        epoll.slept(waiting, LATE)
        epoll.lent_seconds = 0.0
        assert seconds_asleep(waiting) < 2 * PAUSE_SECONDS_MIN
