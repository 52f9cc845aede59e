"""What comes first for a task that waits for an epoll of its own: real descriptors, and Trio's real loop."""

import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tailrace.runtime import other_work
from tailrace.runtime.other_work import OtherWork


class _Waiting:
    """A task that was woken for its epoll, while Trio had nothing else to do."""

    def __init__(self, epoll: select.epoll, outgoing: socket.socket, incoming: socket.socket) -> None:
        self._epoll = epoll
        self.outgoing = outgoing
        self.incoming = incoming
        self.other_work = OtherWork(epoll.fileno())

    async def wake(self) -> None:
        self.outgoing.send(b"x")
        await trio.lowlevel.wait_readable(self._epoll.fileno())
        self.incoming.recv(100)


@asynccontextmanager
async def _woken() -> AsyncIterator[_Waiting]:
    outgoing, incoming = socket.socketpair()
    with outgoing, incoming, select.epoll() as epoll:
        epoll.register(incoming, select.EPOLLIN)
        waiting = _Waiting(epoll, outgoing, incoming)
        await trio.sleep(0.001)  # Trio has had nothing to do
        await waiting.wake()
        yield waiting
        waiting.other_work.close()


async def test_nothing_comes_first_while_there_is_more_for_the_task_alone() -> None:
    async with _woken() as waiting:
        for _ in range(3):
            waiting.outgoing.send(b"x")
            assert not waiting.other_work.comes_first()
            waiting.incoming.recv(100)


async def test_trio_is_to_wait_for_what_does_not_come_soon() -> None:
    async with _woken() as waiting:
        assert waiting.other_work.comes_first()
        waiting.outgoing.send(b"x")
        assert not waiting.other_work.comes_first()


async def test_a_task_that_can_go_on_comes_first() -> None:
    async with _woken() as waiting, trio.open_nursery() as nursery:
        event = trio.Event()
        nursery.start_soon(event.wait)
        waiting.outgoing.send(b"x")
        assert waiting.other_work.comes_first()
        await trio.sleep(0.001)
        assert not waiting.other_work.comes_first()
        event.set()
        assert waiting.other_work.comes_first()


async def test_what_another_task_waits_for_comes_first() -> None:
    outgoing, incoming = socket.socketpair()
    with outgoing, incoming:
        async with _woken() as waiting, trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.wait_readable, incoming)
            await trio.sleep(0.001)
            waiting.outgoing.send(b"x")
            assert not waiting.other_work.comes_first()
            outgoing.send(b"x")
            assert waiting.other_work.comes_first()


async def test_what_a_thread_has_done_comes_first() -> None:
    async with _woken() as waiting:
        trio.lowlevel.current_trio_token().run_sync_soon(waiting.outgoing.fileno)  # as threads say that they are done
        waiting.outgoing.send(b"x")
        assert waiting.other_work.comes_first()


async def test_where_the_system_does_not_tell_trio_always_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_work, "_FACTS", str(tmp_path / "missing"))
    async with _woken() as waiting:
        waiting.outgoing.send(b"x")
        assert waiting.other_work.comes_first()
