"""Lets new connections, and those that took long turns lately, take turns with each other.

All others are served in between. Without this, a client would wait for a turn of each busy client in front of it:
seconds, if there are hundreds.
"""

import math

import trio

from .waiting_line import WaitingLine

BUSY_SECONDS = 0.005
"""How long the work for one connection takes at a time before the connection counts as busy."""
BUSY_STAYS_SECONDS = 1.0
"""How long a connection counts as busy after its last long turn."""
BUSY_TURN_SECONDS_MAX = 0.0005
"""After how long the turn of a busy connection ends, if more requests wait."""
NEW_TURN_SECONDS_MAX = 0.0003
"""After how long the turn of a new connection ends. A client begins with one small request."""
LARGE_REQUESTS = ""
"""What large requests stand in line as, in place of an address. Their steps have a line of their own."""
LEAD_SECONDS_MAX = 0.01
"""How far one line may be behind the other, so that it does not have all turns for long afterwards."""


class Crowd:
    """The lines of new and of busy connections. One connection at a time takes a turn.

    Both lines get the same time, so that a new client does not wait for all busy ones, and thousands of new ones do not
    hold up the busy ones. In each line, addresses take turns: a client does not wait for all connections of another
    machine. `enter` always lets other tasks run first, so that two turns never follow each other
    directly.
    """

    __slots__ = ("_began", "_busy", "_is_taken", "_lead_seconds", "_new", "_was_new", "busy_seconds")

    def __init__(self, busy_seconds: float = BUSY_SECONDS) -> None:
        self.busy_seconds = busy_seconds
        """How long the work for one connection takes at a time before the connection counts as busy."""
        self._new = WaitingLine[trio.Event]()
        self._busy = WaitingLine[trio.Event]()
        self._is_taken = False
        self._was_new = False
        """Whether a new connection has the turn, or had it last."""
        self._began = 0.0
        """When the turn began."""
        self._lead_seconds = 0.0
        """How much more time the line of new connections has had lately than the line of busy ones."""

    async def enter(self, address: str = LARGE_REQUESTS, *, is_new: bool = False) -> None:
        """Waits for a turn of a connection from this address. The turn ends with `leave`."""
        if not self._is_taken:
            self._is_taken, self._was_new = True, is_new
            self._began = math.inf
            try:
                await trio.lowlevel.checkpoint()
            except BaseException:
                self.leave()
                raise
            self._began = trio.current_time()
            return
        line = self._new if is_new else self._busy
        called = trio.Event()
        line.join(address, called)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                self.leave()
            else:
                line.leave(address, called)
            raise
        self._began = trio.current_time()

    def leave(self) -> None:
        """Ends the turn. The next connection in line takes its turn after other tasks have run."""
        self._lead_seconds = lead_after(self._lead_seconds, trio.current_time() - self._began, is_new=self._was_new)
        self._began = math.inf
        if self._new and self._busy:
            is_new = new_is_next(self._lead_seconds, was_new=self._was_new)
        elif self._new or self._busy:
            is_new = bool(self._new)
        else:
            self._is_taken = False
            return
        self._was_new = is_new
        (self._new if is_new else self._busy).take().set()


def lead_after(lead_seconds: float, seconds: float, *, is_new: bool) -> float:
    """Returns how much more time new connections have had than busy ones, after a turn of one of them."""
    used = max(0.0, seconds)
    return max(-LEAD_SECONDS_MAX, min(LEAD_SECONDS_MAX, lead_seconds + (used if is_new else -used)))


def new_is_next(lead_seconds: float, *, was_new: bool) -> bool:
    """Returns whether the next turn is that of a new connection, if both lines wait."""
    return lead_seconds < 0 or (lead_seconds == 0 and not was_new)
