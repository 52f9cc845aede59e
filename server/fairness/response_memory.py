"""Bounds the memory of responses that clients have not read, over all connections, and closes the worst connections.

A connection may hold some responses, because a client may be slow for a moment. A single response may be larger. What
it has received of further requests counts as well. If thousands of clients do not read, that is too much: once half of
the limit is in use, a connection is only read while it holds little, and little at a time. If the limit is exceeded all
the same, connections of slow clients end, first those that hold the most for the longest time. Clients that read large
responses at full speed go on, until all connections together hold twice the limit.
"""

import heapq
import math
from typing import Protocol

from msgspec import Struct

HELD_BYTES_MAX = 256 * 1024
"""The size of all unsent responses at which a connection stops reading."""
SCARCE_BYTES_MAX = 16 * 1024
"""The size at which a connection stops reading while memory is scarce, and how much it then receives at once."""
_SCARCE_FROM = 1 / 2
"""The part of the limit from which on memory is scarce."""
_RELIEVED_AT = 3 / 4
"""The part of the limit that remains in use after connections were closed, so that this is done rarely."""
_ENDURED = 2
"""How many times the limit may be in use before clients are closed that are not slow."""
SLOW_SECONDS = 10
"""A client is slow if it has not read what it holds for this long, where each part that it reads counts."""
_RECHECK_SECONDS = 1
"""How often slow clients are looked for while the limit is exceeded."""
CLOSED_AT_ONCE_MAX = 50
"""How many clients are closed in one go, because others wait meanwhile."""
_GO_ON_SECONDS = 0.02
"""After how long further slow clients are looked for, if there were more of them than are closed in one go."""


class SlowReader(Protocol):
    """A connection whose client has not read all responses."""

    def close(self, reason: str) -> None:
        """Closes the connection, which drops its responses."""


class _Held(Struct):
    """What one connection holds."""

    count: int
    since: float
    """When the client had last read everything. Each time it reads a part, this moves by the same part towards now."""


class ResponseMemory:
    """The unread responses of all connections of a server."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[SlowReader, _Held] = {}
        self.held_bytes = 0
        self.allowance = HELD_BYTES_MAX
        """The size of unsent responses at which each connection stops reading now."""
        self._look_at = -math.inf
        """When slow clients are looked for next."""

    def hold(self, owner: SlowReader, count: int, now: float) -> None:
        """Takes note that the unread responses of the owner have `count` bytes. May close the owner, or others.

        An owner that has just read something, or that had read everything before, is not closed.
        """
        held = self._held.get(owner)
        if count <= 0:
            self.release(owner)
            return
        goes_on = held is None or count < held.count
        if held is None:
            held = self._held[owner] = _Held(0, now)
        elif goes_on:
            held.since += (now - held.since) * (held.count - count) / held.count
        self.held_bytes += count - held.count
        held.count = count
        if self.held_bytes > self._limit_bytes:
            self._relieve(now, owner if goes_on else None)
        self._set_allowance()

    def release(self, owner: SlowReader) -> None:
        """Takes note that the owner holds nothing more."""
        held = self._held.pop(owner, None)
        if held is not None:
            self.held_bytes -= held.count
            self._set_allowance()

    @property
    def is_scarce(self) -> bool:
        """Whether so much is held that each connection may hold little."""
        return self.allowance == SCARCE_BYTES_MAX

    def _set_allowance(self) -> None:
        is_scarce = self.held_bytes >= self._limit_bytes * _SCARCE_FROM
        self.allowance = SCARCE_BYTES_MAX if is_scarce else HELD_BYTES_MAX

    def _relieve(self, now: float, spared: SlowReader | None) -> None:
        """Closes slow clients, and others if there is far too much. A client that alone holds everything goes on."""
        if now >= self._look_at:
            closed = self._close_worst(now, spared, self._limit_bytes, SLOW_SECONDS)
            self._look_at = now + (_GO_ON_SECONDS if closed == CLOSED_AT_ONCE_MAX else _RECHECK_SECONDS)
        endured = self._limit_bytes * _ENDURED
        if self.held_bytes > endured and len(self._held) > 1:
            self._close_worst(now, spared, endured, 0)

    def _close_worst(self, now: float, spared: SlowReader | None, limit_bytes: int, seconds_min: float) -> int:
        """Closes clients that have not read for at least `seconds_min`, the worst first, until the rest is well below
        the limit, or until others have to go on. Returns how many it has closed."""

        def badness(owner: SlowReader) -> tuple[float, int]:
            held = self._held[owner]
            return held.count * (now - held.since), held.count

        slow = [each for each, held in self._held.items() if each is not spared and now - held.since >= seconds_min]
        closed = 0
        for owner in heapq.nlargest(CLOSED_AT_ONCE_MAX, slow, key=badness):
            if self.held_bytes <= limit_bytes * _RELIEVED_AT or len(self._held) == 1:
                break
            self.release(owner)
            owner.close("the client does not read its responses, and other clients need the memory")
            closed += 1
        return closed
