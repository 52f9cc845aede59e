"""One write for all who want the same to be on the disk: thousands may want it at once, when a leader is lost.

Whoever finds nobody writing writes what there is, for all who have asked by the time that this begins. Who comes later
may have come too late for it, and waits for the next one.
"""

from collections.abc import Awaitable, Callable

import trio


class SharedWrites:
    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        """`write` begins with what is known when it is called. Raises OSError."""
        self.lock = trio.Lock()
        """Held while somebody writes; and by whoever else wants that nobody does."""
        self.failure: str | None = None
        """Set by `write` when another one must not be tried: all who wait are told so, and all who come."""
        self._write = write
        self._asked = 0
        """Numbers those who ask."""
        self._written = 0
        """The last of them for whom it was done."""
        self._over: trio.Event | None = None
        """While somebody writes."""

    async def take_part(self) -> None:
        """Returns after a write that began after this call. When the one who writes fails, or is cancelled, the others
        try for themselves. Raises OSError."""
        self._asked = number = self._asked + 1
        while self._written < number:
            if self.failure is not None:
                raise OSError(self.failure)
            if self._over is not None:
                # All go on together: a lock would let one go on in each turn, and turns are long when a leader is lost.
                await self._over.wait()
                continue
            self._over = over = trio.Event()
            try:
                async with self.lock:  # a turn at least, in which others ask who take part
                    last = self._asked
                    await self._write()
                    self._written = last
            finally:
                self._over = None
                over.set()
