"""One write that serves all callers who need the same state on the disk.

Thousands of callers may need it at once when a leader is lost. A caller that finds no write in progress starts one,
which also covers all callers that arrive before it begins. A later caller may be too late for that write and waits for
the next one.
"""

from collections.abc import Awaitable, Callable

import trio


class SharedWrites:
    """Runs one write at a time, and lets waiting callers share it."""

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        """Makes an object that writes with `write`, which writes the state at the time of its call and raises
        OSError."""
        self.lock = trio.Lock()
        """Held during a write. Others may hold it to keep writes from starting."""
        self.failure: str | None = None
        """Why no further write may be tried, if that is so. `write` sets it; all present and later callers get it as
        an OSError."""
        self._write = write
        self._calls = 0
        """The number of calls so far. Each call gets the next number."""
        self._written = 0
        """The number of the last call that a finished write covers."""
        self._finished: trio.Event | None = None
        """Set at the end of the write in progress; None while there is none."""

    async def ensure_written(self) -> None:
        """Returns after a write that began after this call. Raises OSError.

        If the caller that writes fails or is cancelled, the other callers try for themselves.
        """
        self._calls = number = self._calls + 1
        while self._written < number:
            if self.failure is not None:
                raise OSError(self.failure)
            if self._finished is not None:
                # All wake together. A lock would wake one per scheduler turn, and turns are long when a leader is lost.
                await self._finished.wait()
                continue
            self._finished = finished = trio.Event()
            try:
                async with self.lock:  # takes at least one scheduler turn, in which other callers join
                    last = self._calls
                    await self._write()
                    self._written = last
            finally:
                self._finished = None
                finished.set()
