"""One epoll over pairs of real sockets: which callbacks run, when, and what else runs in between."""

import gc
import socket
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
import trio
import trio.testing

from tailrace.runtime.readiness import CALLS_PER_TURN, Readiness


class _Reader:
    """One end of a pair. Each call reads everything, until it has read `last`."""

    def __init__(self, readiness: Readiness, incoming: socket.socket, last: bytes = b".") -> None:
        self.readiness = readiness
        self.incoming = incoming
        self.last = last
        self.received: list[bytes] = []

    def on_readable(self) -> bool:
        self.received.append(self.incoming.recv(100))
        return not self.received[-1].endswith(self.last)

    async def run(self) -> None:
        await self.readiness.call_when_readable(self.incoming.fileno(), self.on_readable)


@contextmanager
def _pairs(count: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(count)]
        for pair in pairs:
            for each in pair:
                stack.enter_context(each)
        yield pairs


@contextmanager
def _ordinary_file() -> Iterator[int]:
    """Yields a descriptor that no epoll accepts."""
    with open(__file__) as file:
        yield file.fileno()


async def test_the_waiting_task_sleeps_until_a_call_returns_false() -> None:
    with _pairs(1) as ((outgoing, incoming),):
        reader = _Reader(Readiness(), incoming)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            for data in (b"a", b"b", b"c."):
                await trio.testing.wait_all_tasks_blocked()
                outgoing.send(data)
        assert reader.received == [b"a", b"b", b"c."]
        outgoing.send(b"more.")
        await reader.run()  # again, on the same socket
        assert reader.received[3:] == [b"more."]


async def test_a_descriptor_that_cannot_be_watched_can_be_closed() -> None:
    readiness = Readiness()
    with _ordinary_file() as descriptor:
        with pytest.raises(PermissionError):
            await readiness.call_when_readable(descriptor, lambda: True)
        readiness.on_closing(descriptor)


async def test_all_are_called_even_if_there_are_too_many_for_one_turn() -> None:
    readiness = Readiness()
    with _pairs(3 * CALLS_PER_TURN) as pairs:
        readers = [_Reader(readiness, incoming) for _, incoming in pairs]
        async with trio.open_nursery() as nursery:
            for (outgoing, _), reader in zip(pairs, readers, strict=True):
                outgoing.send(b"x.")
                nursery.start_soon(reader.run)
        assert all(reader.received == [b"x."] for reader in readers)


async def test_a_socket_that_is_always_ready_does_not_starve_others() -> None:
    readiness = Readiness()
    calls = 0

    with _pairs(2) as ((busy_outgoing, busy_incoming), (outgoing, incoming)):

        def on_readable() -> bool:
            nonlocal calls
            calls += 1
            if calls == 1:
                outgoing.send(b"x.")
            return True  # without reading

        busy_outgoing.send(b"x")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readiness.call_when_readable, busy_incoming.fileno(), on_readable)
            await _Reader(readiness, incoming).run()
            nursery.cancel_scope.cancel()
    assert calls


class _Circle:
    """Sends what it reads to itself, so that it is always readable."""

    def __init__(self, outgoing: socket.socket, incoming: socket.socket, rounds_max: int) -> None:
        self.rounds = 0
        self._outgoing = outgoing
        self._incoming = incoming
        self._rounds_max = rounds_max
        outgoing.send(b"x")

    def on_readable(self) -> bool:
        self.rounds += 1
        self._outgoing.send(self._incoming.recv(100))
        return self.rounds < self._rounds_max


class _Passes(trio.abc.Instrument):
    """Counts the passes through Trio's loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_trios_loop_rests_while_only_called_back_sockets_are_ready() -> None:
    readiness, passes = Readiness(), _Passes()
    with _pairs(1) as ((outgoing, incoming),):
        circle = _Circle(outgoing, incoming, rounds_max=5000)
        trio.lowlevel.add_instrument(passes)
        await readiness.call_when_readable(incoming.fileno(), circle.on_readable)
    assert circle.rounds == 5000
    assert passes.count < circle.rounds / 1000


async def test_deadlines_are_kept_while_sockets_are_always_ready() -> None:
    readiness = Readiness()
    with _pairs(1) as ((outgoing, incoming),):
        circle = _Circle(outgoing, incoming, rounds_max=1_000_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readiness.call_when_readable, incoming.fileno(), circle.on_readable)
            await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
    assert 0 < circle.rounds < 1_000_000


async def test_a_task_woken_by_a_call_continues_before_the_next_turn() -> None:
    readiness, woken = Readiness(), trio.Event()
    calls_when_woken = calls = 0
    with _pairs(1) as ((outgoing, incoming),):

        def on_readable() -> bool:
            nonlocal calls
            calls += 1
            woken.set()
            return calls < 200  # without reading

        async def wait() -> None:
            nonlocal calls_when_woken
            await woken.wait()
            calls_when_woken = calls

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.lowlevel.checkpoint()
            outgoing.send(b"x")
            await readiness.call_when_readable(incoming.fileno(), on_readable)
    assert calls_when_woken in (1, 2)  # Trio may run two ready tasks in either order


async def test_an_exception_of_a_call_is_raised_only_in_its_task() -> None:
    readiness = Readiness()

    def fail() -> bool:
        raise ValueError("no such thing")

    with _pairs(2) as ((outgoing, incoming), (other_outgoing, other_incoming)):
        other = _Reader(readiness, other_incoming)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.run)
            outgoing.send(b"x")
            with pytest.raises(ValueError, match="no such thing"):
                await readiness.call_when_readable(incoming.fileno(), fail)
            other_outgoing.send(b"x.")
        assert other.received == [b"x."]


async def _call_all_in_one_turn(calls: list[Callable[[], bool]], turn_ended: Callable[[], None]) -> list[str]:
    """Makes all sockets ready for one turn. Returns the exceptions that the waiting tasks got."""
    readiness, raised = Readiness(), []

    async def wait(incoming: socket.socket, on_readable: Callable[[], bool]) -> None:
        try:
            await readiness.call_when_readable(incoming.fileno(), on_readable, turn_ended)
        except ValueError as error:
            raised.append(str(error))

    with _pairs(len(calls)) as pairs:
        async with trio.open_nursery() as nursery:
            for (outgoing, incoming), on_readable in zip(pairs, calls, strict=True):
                outgoing.send(b"x")
                nursery.start_soon(wait, incoming, on_readable)
    return raised


async def test_a_turn_ends_once_for_all_callers_even_if_a_call_fails() -> None:
    happened: list[str] = []

    def on_readable() -> bool:
        happened.append("call")
        return False

    def fail() -> bool:
        happened.append("call")
        raise ValueError("no such thing")

    def turn_ended() -> None:
        happened.append("end")

    assert await _call_all_in_one_turn([on_readable, fail, on_readable], turn_ended) == ["no such thing"]
    assert happened == ["call", "call", "call", "end"]


@pytest.mark.parametrize("calls", [[lambda: True], [lambda: False, lambda: False]])
async def test_an_exception_at_the_end_of_a_turn_is_raised_in_one_waiting_task(calls: list[Callable[[], bool]]) -> None:
    def turn_ended() -> None:
        raise ValueError("no such end")

    assert await _call_all_in_one_turn(calls, turn_ended) == ["no such end"]


async def test_another_turn_ended_function_is_called_by_itself() -> None:
    readiness, ended = Readiness(), []
    with _pairs(2) as pairs:
        async with trio.open_nursery() as nursery:
            for number, (outgoing, incoming) in enumerate(pairs):
                outgoing.send(b"x")
                end = partial(ended.append, number)
                nursery.start_soon(readiness.call_when_readable, incoming.fileno(), lambda: False, end)
    assert sorted(ended) == [0, 1]


async def test_the_frame_of_a_failed_call_is_freed_with_its_error() -> None:
    """The frame may hold a request of a hundred megabytes, and the garbage collector runs rarely."""
    readiness = Readiness()
    at_hand: list[weakref.ref[_Reader]] = []

    def fail() -> bool:
        reader = _Reader(readiness, incoming)
        at_hand.append(weakref.ref(reader))
        raise ValueError("no such thing")

    gc.disable()
    try:
        with _pairs(1) as ((outgoing, incoming),):
            outgoing.send(b"x")
            with pytest.raises(ValueError, match="no such thing") as raised:
                await readiness.call_when_readable(incoming.fileno(), fail)
            del raised
        assert [each() for each in at_hand] == [None]
    finally:
        gc.enable()


async def test_a_task_cancelled_in_a_turn_is_not_called_in_it() -> None:
    readiness = Readiness()
    scopes = [trio.CancelScope(), trio.CancelScope()]
    called: list[int] = []

    async def wait(number: int, incoming: socket.socket) -> None:
        def on_readable() -> bool:
            called.append(number)
            scopes[1 - number].cancel()
            incoming.recv(100)
            return number == 0  # another task cancels it: both outcomes are right

        with scopes[number]:
            await readiness.call_when_readable(incoming.fileno(), on_readable)

    with _pairs(2) as pairs:
        async with trio.open_nursery() as nursery:
            for number, (outgoing, incoming) in enumerate(pairs):
                nursery.start_soon(wait, number, incoming)
                outgoing.send(b"x")
            await trio.testing.wait_all_tasks_blocked()
            assert len(called) == 1
            scopes[called[0]].cancel()


async def test_a_call_may_cancel_its_own_task() -> None:
    with _pairs(1) as ((outgoing, incoming),):
        outgoing.send(b"x")
        with trio.CancelScope() as scope:

            def on_readable() -> bool:
                scope.cancel()
                return False

            await Readiness().call_when_readable(incoming.fileno(), on_readable)
        assert scope.cancelled_caught


async def test_closing_a_socket_is_an_error_for_the_waiting_task() -> None:
    readiness = Readiness()
    with _pairs(1) as ((_, incoming),):
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await _Reader(readiness, incoming).run()

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            readiness.on_closing(incoming.fileno())
        readiness.on_closing(incoming.fileno())  # without a waiting task it does nothing


def test_it_serves_one_trio_run_after_another() -> None:
    readiness = Readiness()
    with _pairs(1) as ((outgoing, incoming),):
        for _ in range(2):
            reader = _Reader(readiness, incoming)
            outgoing.send(b"x.")
            trio.run(reader.run)
            assert reader.received == [b"x."]
