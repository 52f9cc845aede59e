"""What comes first for a task that waits for an epoll of its own: real descriptors, and Trio's real loop."""

import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tailrace.runtime import other_work
from tailrace.runtime.other_work import AWAKE_SECONDS_MAX, OtherWork


class _Waiting:
    """A task that was woken for its epoll, while Trio had nothing else to do."""

    def __init__(self, other_work: OtherWork, outgoing: socket.socket, incoming: socket.socket) -> None:
        self.other_work = other_work
        self.outgoing = outgoing
        self.incoming = incoming

    def may_wait(self) -> bool:
        """Whether it gets what has come for it."""
        self.outgoing.send(b"x")
        events = self.other_work.wait(9)
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
        other_work = OtherWork(epoll)
        other_work.register(incoming.fileno())
        await _rest()
        yield _Waiting(other_work, outgoing, incoming)
        other_work.unregister(incoming.fileno())
        other_work.close()


async def _rest() -> None:
    """Trio has nothing to do for a moment."""
    await trio.sleep(0.001)


async def test_nothing_comes_first_while_there_is_more_for_the_task_alone() -> None:
    async with _woken() as waiting:
        assert all(waiting.may_wait() for _ in range(3))


async def test_trio_is_to_wait_for_what_does_not_come_soon() -> None:
    async with _woken() as waiting:
        assert not waiting.other_work.wait(9)
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


async def test_where_the_system_does_not_tell_trio_always_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_work, "_FACTS", str(tmp_path / "missing"))
    async with _woken() as waiting:
        assert not waiting.may_wait()


class _Epoll:
    """Of which a test says how long it is until something comes; each look takes a hundredth of a millisecond."""

    def __init__(self) -> None:
        self.now = 0.0
        self.comes_at = 0.0
        self.slept_seconds = 0.0

    def clock(self) -> float:
        return self.now

    def poll(self, timeout: float, _: int) -> list[tuple[int, int]]:
        self.now += 0.000_01
        if self.now < self.comes_at and timeout > 0:
            slept = min(timeout, self.comes_at - self.now)
            self.slept_seconds += slept
            self.now += slept
        return [(1, select.EPOLLIN)] if self.now >= self.comes_at else []

    def slept(self, other_work: OtherWork, comes_after_seconds: float) -> float:
        """How long a wait for that sleeps."""
        self.comes_at = self.now + comes_after_seconds
        self.slept_seconds = 0.0
        while not other_work._wait(self.poll, 9):
            pass
        return self.slept_seconds


async def test_what_came_soon_the_last_time_is_waited_for_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll()
    monkeypatch.setattr(other_work, "perf_counter", epoll.clock)
    monkeypatch.setattr(other_work, "cores_for_us", lambda: 2)
    soon, late = AWAKE_SECONDS_MAX / 2, 10 * AWAKE_SECONDS_MAX
    with select.epoll() as unused:
        waiting = OtherWork(unused)
        assert epoll.slept(waiting, soon)
        assert not epoll.slept(waiting, soon)
        assert 0 < epoll.slept(waiting, late) < late
        assert epoll.slept(waiting, soon), "it was late the last time"
        assert not epoll.slept(waiting, soon)


async def test_nobody_stays_awake_on_the_only_core(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = _Epoll()
    monkeypatch.setattr(other_work, "perf_counter", epoll.clock)
    monkeypatch.setattr(other_work, "cores_for_us", lambda: 1)
    with select.epoll() as unused:
        waiting = OtherWork(unused)
        assert all(epoll.slept(waiting, AWAKE_SECONDS_MAX / 2) for _ in range(3))
