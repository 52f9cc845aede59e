"""Bounds the memory of arriving requests over all connections, and closes those that stall while others wait.

A connection reserves the size of the whole request before it reads on, so that it can always finish the request. The
last reservation may exceed the limit by one request. Small requests never wait because they fit in the shared buffer.

A client can announce a large request at no cost and then send nothing. While others wait for memory, a connection whose
client has sent nothing for a while is therefore closed.
"""

from typing import Protocol

import trio

SMALL_BYTES = 64 * 1024
STALLED_SECONDS_MAX = 10


class Holder(Protocol):
    """A connection that may reserve memory."""

    @property
    def stalled_since(self) -> float:
        """When the client last sent something; infinity unless the connection only waits for the client."""

    def close(self, reason: str) -> None:
        """Closes the connection, which releases its memory."""


class RequestMemory:
    """The reservations of all connections of a server."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._reserved: dict[Holder, int] = {}
        self._freed = trio.Event()
        self.reserved_bytes = 0

    async def reserve(self, owner: Holder, count: int) -> None:
        """Sets the owner's reservation to `count` bytes, waiting for others to release theirs if necessary."""
        while not self.has_reserved(owner, count):
            with trio.move_on_after(STALLED_SECONDS_MAX) as waiting:
                await self._freed.wait()
            if waiting.cancelled_caught:
                self._close_stalled()

    def _close_stalled(self) -> None:
        since = trio.current_time() - STALLED_SECONDS_MAX
        for holder in [holder for holder in self._reserved if holder.stalled_since <= since]:
            holder.close("the rest of a request did not arrive in time, and other clients wait for its memory")

    def has_reserved(self, owner: Holder, count: int) -> bool:
        """Sets the owner's reservation to `count` bytes if that is possible without waiting; returns whether it was."""
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
        """Releases the owner's reservation, if it has one."""
        freed = self._reserved.pop(owner, 0)
        if freed:
            self.reserved_bytes -= freed
            self._wake()

    def _wake(self) -> None:
        self._freed.set()
        self._freed = trio.Event()
