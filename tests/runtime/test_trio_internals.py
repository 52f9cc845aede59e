"""Whether this version of Trio still has what we use of its private parts."""

import select
import socket

import pytest
import trio
from trio._core import _run

from tailrace.runtime.trio_internals import trio_epoll


async def test_this_trio_has_its_epoll_where_we_look_for_it() -> None:
    outgoing, incoming = socket.socketpair()
    with outgoing, incoming, select.epoll() as watching:
        epoll = trio_epoll()
        assert epoll is not None, (
            f"Trio {trio.__version__} does not keep its epoll where trio_internals looks for it. Servers still work,"
            " but every wait for sockets passes through Trio's loop, which costs throughput. Find the epoll in"
            " trio/_core/_io_epoll.py and adapt runtime/trio_internals.py."
        )
        watching.register(epoll, select.EPOLLIN)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.wait_readable, incoming)
            await trio.testing.wait_all_tasks_blocked()
            assert not watching.poll(0)
            outgoing.send(b"x")
            assert watching.poll(0), (
                f"the epoll of Trio {trio.__version__} does not report what its tasks wait for, so direct_wait would"
                " keep them waiting: adapt runtime/trio_internals.py"
            )


def test_without_a_trio_loop_there_is_none() -> None:
    assert trio_epoll() is None


async def test_a_trio_without_an_epoll_of_that_name_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = _run.GLOBAL_RUN_CONTEXT.runner
    epoll = trio_epoll()
    assert epoll is not None
    monkeypatch.setattr(runner.io_manager, "_epoll", object())
    found = trio_epoll()
    monkeypatch.setattr(runner.io_manager, "_epoll", epoll)
    assert found is None
