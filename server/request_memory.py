"""Bounds the memory of requests that are still arriving, over all connections together.

A connection reserves the whole of a request before it reads on, so that a request once begun can always be finished;
the last reservation may go past the limit by one request. Small requests never wait: they lie in the shared buffer.

To announce a request costs a client nothing, and it may vanish after that. So while others wait, whoever has sent
nothing more for a while is closed.
"""

from typing import Protocol

import trio

SMALL_BYTES = 64 * 1024
STALLED_SECONDS_MAX = 10


class Holder(Protocol):
    """A connection."""

    @property
    def stalled_since(self) -> float:
        """When its client last sent something; inf where it is not the client that is waited for."""

    def close(self, reason: str) -> None: ...


class RequestMemory:
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._reserved: dict[Holder, int] = {}
        self._freed = trio.Event()
        self.reserved_bytes = 0

    async def reserve(self, owner: Holder, count: int) -> None:
        """Makes the owner's reservation `count` bytes, waiting until others have freed theirs if it must."""
        while not self.has_reserved(owner, count):
            with trio.move_on_after(STALLED_SECONDS_MAX) as waiting:
                await self._freed.wait()
            if waiting.cancelled_caught:
                self._close_stalled()

    def _close_stalled(self) -> None:
        since = trio.current_time() - STALLED_SECONDS_MAX
        for holder in [holder for holder in self._reserved if holder.stalled_since <= since]:
            holder.close("the rest of its request did not come, and others wait for the memory that it was given")

    def has_reserved(self, owner: Holder, count: int) -> bool:
        """The same if that is possible at once; says whether it was."""
        if count <= SMALL_BYTES:
            if owner in self._reserved:
                self.release(owner)
            return True
        held = self._reserved.get(owner, 0)
        if count > held and self.reserved_bytes - held >= self._limit_bytes:
            return False
        self.reserved_bytes += count - held
        self._reserved[owner] = count
        if count < held:
            self._wake()
        return True

    def release(self, owner: Holder) -> None:
        freed = self._reserved.pop(owner, 0)
        if freed:
            self.reserved_bytes -= freed
            self._wake()

    def _wake(self) -> None:
        self._freed.set()
        self._freed = trio.Event()
