"""Keeps a process running: starts it again after a pause whenever it ends, until it is stopped."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio
from msgspec import Struct

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 10.0
STABLE_SECONDS = 10.0
"""How long a process must run so that its end does not count as a failed start."""


class ProcessEndedError(Exception):
    """A process ended before it served; the message says how."""


class RunningProcess(Protocol):
    """A process that a launcher has started. It may also be a part of this process."""

    async def wait(self) -> str:
        """Waits until the process has ended, and returns how, in words for the log."""

    async def stop(self) -> None:
        """Asks the process to stop cleanly, ends it if that takes too long, and returns when it has ended."""

    def end(self) -> None:
        """Ends the process at once, if it has not ended."""


class Restarts(Struct):
    """The pause before a process is started again."""

    pause_seconds: float = PAUSE_SECONDS_MIN

    def on_ended(self, lived_seconds: float) -> float:
        """Returns the pause before the next start. It doubles while the process does not run for long."""
        if lived_seconds >= STABLE_SECONDS:
            self.pause_seconds = PAUSE_SECONDS_MIN
        pause = self.pause_seconds
        self.pause_seconds = min(2 * pause, PAUSE_SECONDS_MAX)
        return pause


class SupervisedProcess:
    """One process, which is restarted whenever it ends."""

    def __init__(self, launch: Callable[[], Awaitable[RunningProcess]], on_ended: Callable[[str, float], None]) -> None:
        """`launch` starts the process and returns when it serves. It raises ProcessEndedError or OSError.

        `on_ended` is told how the process has ended, and after how many seconds it is started again.
        """
        self.serves = trio.Event()
        """Set when the process has served for the first time."""
        self._launch = launch
        self._on_ended = on_ended
        self._restarts = Restarts()
        self._supervision = trio.CancelScope()
        self._running: RunningProcess | None = None
        self._ended = trio.Event()

    async def run(self) -> None:
        """Keeps the process running until `stop`. If this is cancelled instead, the process is ended at once."""
        try:
            with self._supervision:
                await self._supervise()
            if self._running is not None:
                await self._running.stop()
        finally:
            if self._running is not None:
                self._running.end()
            self._ended.set()

    async def _supervise(self) -> None:
        while True:
            started_at = trio.current_time()
            status = await self._run_once()
            pause_seconds = self._restarts.on_ended(trio.current_time() - started_at)
            self._on_ended(status, pause_seconds)
            await trio.sleep(pause_seconds)

    async def _run_once(self) -> str:
        try:
            self._running = await self._launch()
        except (ProcessEndedError, OSError) as error:
            return str(error)
        self.serves.set()
        status = await self._running.wait()
        self._running = None
        return status

    async def stop(self) -> None:
        """Stops the process and returns when it has ended. The launcher limits how long that takes."""
        self._supervision.cancel()
        await self._ended.wait()
