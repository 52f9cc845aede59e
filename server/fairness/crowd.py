"""Lets new connections, and those that took long turns lately, take turns with each other.

All others are served in between. Without this, a client would wait for a turn of each busy client in front of it:
seconds, if there are hundreds.
"""

from collections import deque

import trio

BUSY_SECONDS = 0.005
"""How long the work for one connection takes at a time before the connection counts as busy."""
BUSY_STAYS_SECONDS = 1.0
"""How long a connection counts as busy after its last long turn."""
BUSY_TURN_SECONDS_MAX = 0.002
"""After how long the turn of a busy connection ends, if more requests wait."""


class Crowd:
    """The lines of new and of busy connections. One connection at a time takes a turn.

    Both lines have the same right, so that a new client does not wait for all busy ones. `enter` always lets other
    tasks run first, so that two turns never follow each other directly.
    """

    __slots__ = ("_busy", "_is_taken", "_new", "_was_new", "busy_seconds")

    def __init__(self, busy_seconds: float = BUSY_SECONDS) -> None:
        self.busy_seconds = busy_seconds
        """How long the work for one connection takes at a time before the connection counts as busy."""
        self._new: deque[trio.Event] = deque()
        self._busy: deque[trio.Event] = deque()
        self._is_taken = False
        self._was_new = False

    async def enter(self, *, is_new: bool = False) -> None:
        """Waits for a turn, which ends with `leave`."""
        if not self._is_taken:
            self._is_taken = True
            try:
                await trio.lowlevel.checkpoint()
            except BaseException:
                self.leave()
                raise
            return
        line = self._new if is_new else self._busy
        called = trio.Event()
        line.append(called)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                self.leave()
            else:
                line.remove(called)
            raise

    def leave(self) -> None:
        """Ends the turn. The next connection in line takes its turn after other tasks have run."""
        lines = (self._busy, self._new) if self._was_new else (self._new, self._busy)
        line = lines[0] or lines[1]
        if line:
            self._was_new = line is self._new
            line.popleft().set()
        else:
            self._is_taken = False
