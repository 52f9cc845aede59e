"""What a program asks of its own process: its age, its limit of open files, and when it should stop."""

import gc
import os
import resource
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol

import trio

from .error_groups import first_error

STANDARD_INPUT = 0
INPUT_BYTES_AT_ONCE = 4096
PARENTLESS_STOP_SECONDS_MAX = 30
"""How long a clean stop may take after the parent process has ended."""
_IMPORTED = time.monotonic()


def running_ms() -> int:
    """Returns the age of the process in milliseconds; if the system does not tell it, the time since this module was
    imported."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            started_ticks = int(stat.read().rpartition(b")")[2].split()[19])
        seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        seconds = time.monotonic() - _IMPORTED
    return round(seconds * 1000)


def allow_many_files() -> int:
    """Raises the limit of open files as far as possible, since every replica and every connection needs some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return soft  # a hard limit of "infinity" can be more than the kernel grants
    return hard


def print_ready(what: str) -> None:
    """Prints the line that says that the program is ready. If standard output is closed, the line is lost."""
    gc.collect()
    gc.freeze()  # the objects of the start stay alive: the collector need not look at them again
    with suppress(OSError):
        print(f"ready {what} in {running_ms()} ms", flush=True)


@asynccontextmanager
async def stop_signals() -> AsyncIterator[AsyncIterator[int]]:
    """Provides the signals that ask for a clean stop, as they arrive.

    SIGHUP, the end of a terminal, is one of them unless it was ignored when this process started, as with `nohup`.
    """
    asking = {signal.SIGTERM, signal.SIGINT}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        asking.add(signal.SIGHUP)
    with trio.open_signal_receiver(*asking) as signals:
        yield signals


class Stop:
    """A request to stop that a signal has made, for work that ends what it has begun."""

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal; None until one arrives."""
        self._waiting: trio.CancelScope | None = None

    def is_asked(self) -> bool:
        """Whether a stop was asked for."""
        return self.signal is not None

    @contextmanager
    def ends_waiting(self) -> Iterator[None]:
        """Cancels the block inside when a stop is asked for, and at once if it was asked for before."""
        with trio.CancelScope() as self._waiting:
            if self.is_asked():
                self._waiting.cancel()
            try:
                yield
            finally:
                self._waiting = None

    def ask(self, which: int) -> None:
        """Asks for a stop."""
        self.signal = which
        if self._waiting is not None:
            self._waiting.cancel()


async def run_stoppable(work: Callable[[Stop], Awaitable[None]]) -> Stop:
    """Runs `work`. The first signal is a request to stop, and the second cancels the work."""
    failures: list[BaseException] = []
    stop = Stop()

    async def run() -> None:
        try:
            await work(stop)
        except Exception as error:
            failures.append(error)
        nursery.cancel_scope.cancel()

    async with stop_signals() as signals, trio.open_nursery() as nursery:
        nursery.start_soon(run)
        stop.ask(await anext(signals))
        await anext(signals)
        nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return stop


async def run_until_stopped(work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work` until it ends, or until a signal asks for a stop, which counts as a normal end."""

    async def run(stop: Stop) -> None:
        with stop.ends_waiting():
            await work()

    await run_stoppable(run)


class Stoppable(Protocol):
    """A server that can be stopped cleanly."""

    def stop(self) -> object:
        """Begins a clean stop."""


class ServerStop:
    """The server that the first signal stops. Until there is one, the signal ends the start."""

    def __init__(self) -> None:
        self.server: Stoppable | None = None
        self.is_asked = False

    def stop(self) -> bool:
        """Begins a clean stop. Returns whether there is a server, and `stop` is called for the first time."""
        begins = self.server is not None and not self.is_asked
        self.is_asked = True
        if self.server is not None:
            self.server.stop()
        return begins


def serve_until_stopped(
    serve: Callable[[ServerStop], Awaitable[None]], expected: tuple[type[BaseException], ...]
) -> BaseException | None:
    """Runs a server under Trio. The first signal stops it cleanly, and the second at once.

    Returns the first of the expected errors, or None if there was none.
    """
    found: BaseException | None = None
    interrupted = False
    try:
        trio.run(_serve, serve)
    except* expected as errors:
        found = first_error(errors)
    except* KeyboardInterrupt:
        interrupted = True  # the signal came before the signal handlers: there is nothing to stop yet
    if interrupted:
        raise KeyboardInterrupt
    return found


async def _serve(serve: Callable[[ServerStop], Awaitable[None]]) -> None:
    stop = ServerStop()
    async with stop_signals() as signals, trio.open_nursery() as nursery:
        nursery.start_soon(_stop_when_asked, signals, stop, nursery.cancel_scope)
        await serve(stop)
        nursery.cancel_scope.cancel()


async def _stop_when_asked(signals: AsyncIterator[int], stop: ServerStop, scope: trio.CancelScope) -> None:
    await anext(signals)
    if stop.stop():
        await anext(signals)
    scope.cancel()


async def stop_with_parent(server: Stoppable, scope: trio.CancelScope) -> None:
    """Stops a server cleanly when its parent process ends, within a time limit: no other process would kill it."""
    await end_of_input()
    server.stop()
    await trio.sleep(PARENTLESS_STOP_SECONDS_MAX)
    scope.cancel()


def file_input(path: str) -> Callable[[int], Awaitable[bytes]]:
    """Opens a file and returns the function that reads its next bytes; none at its end. Raises OSError."""
    # The file stays open until the process ends, as standard input does.
    number = os.open(path, os.O_RDONLY)

    async def read(count: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return os.read(number, count)

    return read


async def read_input(count: int) -> bytes:
    """Returns bytes that have arrived on standard input, at most `count`; nothing at its end."""
    with suppress(PermissionError):  # standard input is a file, for which there is no need to wait
        await trio.lowlevel.wait_readable(STANDARD_INPUT)
    return os.read(STANDARD_INPUT, count)


async def write_output(data: bytes) -> None:
    """Writes to standard output. While its reader is slow, other tasks go on, and the caller can be cancelled.

    After a cancellation, a part of `data` may have been written.
    """
    await trio.lowlevel.checkpoint()
    sys.stdout.flush()
    try:
        number = sys.stdout.fileno()
    except OSError:
        # Standard output has been replaced by an object in memory.
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    rest = memoryview(data)
    while rest:
        if not poll.poll(0):
            await trio.lowlevel.wait_writable(number)
        # A pipe that is ready takes this many bytes without blocking.
        with suppress(BlockingIOError):
            rest = rest[os.write(number, rest[: select.PIPE_BUF]) :]


async def end_of_input() -> None:
    """Returns when no process holds the other end of standard input any more, because the parent process has ended.

    The system closes that end however the parent dies, so this does not depend on a last message.
    """
    async with trio.lowlevel.FdStream(os.dup(STANDARD_INPUT)) as stream:
        while await stream.receive_some(INPUT_BYTES_AT_ONCE):
            pass
