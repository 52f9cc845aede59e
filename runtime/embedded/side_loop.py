"""A Trio loop in a thread of its own, for a process whose main thread belongs to another program."""

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import trio

T = TypeVar("T")

Work = Callable[[trio.Event], Awaitable[None]]
"""Work that ends soon after its event, a request to stop, is set."""


class SideLoop:
    """One thread that runs one piece of work with Trio. The process does not wait for the thread at its end."""

    def __init__(self, name: str, work: Work, failed: Callable[[BaseException], None]) -> None:
        """Starts the thread. `failed` is called in the thread if the work raises; the process is not affected."""
        self._stop: trio.Event | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._has_started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work, failed), name=name, daemon=True)
        self._thread.start()
        self._has_started.wait()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Runs a quick call in the loop, if it still runs. Any thread may do this, and does not wait."""
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(call)

    def stop(self, seconds_max: float) -> bool:
        """Asks the work to end, and waits for that. Returns whether it has ended."""
        if self._stop is not None:
            self.call_soon(self._stop.set)
        self._thread.join(seconds_max)
        return not self._thread.is_alive()

    def _run(self, work: Work, failed: Callable[[BaseException], None]) -> None:
        async def main() -> None:
            self._stop, self._token = trio.Event(), trio.lowlevel.current_trio_token()
            self._has_started.set()
            await work(self._stop)

        try:
            trio.run(main)
        except BaseException as error:
            failed(error)
        finally:
            self._has_started.set()


class BlockingCalls:
    """Runs calls that block in threads, one at a time."""

    def __init__(self) -> None:
        self._limit = trio.CapacityLimiter(1)

    async def run(self, call: Callable[[], T]) -> T:
        """Runs a call and returns its result, or raises what it raises.

        If the caller is cancelled, the thread is left alone. The next call waits until that thread has returned, so
        calls that hang do not pile up.
        """
        return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limit)
