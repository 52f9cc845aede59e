"""The place of one connection among the busy ones: whether it stands in line with them, and when its turn ends."""

import math

import trio

from .crowd import BUSY_STAYS_SECONDS, BUSY_TURN_SECONDS_MAX, NEW_TURN_SECONDS_MAX, Crowd


class PlaceInLine:
    """What is known about how long the work for one connection takes.

    A connection is new until its first request has been handled, if `begin` was called. A new connection stands in line
    as a busy one does.
    """

    __slots__ = ("_address", "_began", "_busy_until", "_crowd", "turn_ends")

    def __init__(self, crowd: Crowd, address: str) -> None:
        """Prepares the place of a connection from this address."""
        self._address = address
        self._crowd = crowd
        self._busy_until = -math.inf
        self._began = 0.0
        self.turn_ends: float | None = None
        """When the turn ends even if more requests wait; None unless the connection has entered the crowd."""

    def begin(self) -> None:
        """Makes the connection a new one, which stands in line for its first turn."""
        self._busy_until = math.inf

    @property
    def is_new(self) -> bool:
        """Whether nothing is known of the connection yet."""
        return self._busy_until == math.inf

    def is_busy(self, now: float) -> bool:
        """Whether the connection stands in line for its next turn."""
        return now < self._busy_until

    def note_work(self, began: float, now: float) -> bool:
        """Takes note of work outside the line. Returns whether the connection stands in line from now on."""
        if now - began < self._crowd.busy_seconds:
            return False
        self._busy_until = now + BUSY_STAYS_SECONDS
        return True

    async def enter(self) -> None:
        """Waits for a turn, which ends with `leave`."""
        await self._crowd.enter(self._address, is_new=self.is_new)
        self._began = trio.current_time()
        self.turn_ends = self._began + (NEW_TURN_SECONDS_MAX if self.is_new else BUSY_TURN_SECONDS_MAX)

    def end_turn(self, now: float, handled: int, *, has_more: bool) -> None:
        """Decides from a turn whether the connection stays in line. `handled` is the number of requests in the turn."""
        if self.is_new and not handled:
            return  # its first request is incomplete, and nothing is known of it yet
        if has_more or now - self._began >= self._crowd.busy_seconds:
            self._busy_until = now + BUSY_STAYS_SECONDS
        elif self.is_new:
            self._busy_until = now  # the first turn was short

    def leave(self) -> None:
        """Lets the next connection in line take its turn."""
        self.turn_ends = None
        self._crowd.leave()
