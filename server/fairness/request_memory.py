"""Bounds the memory of arriving requests over all connections, and closes slow ones while others wait.

A connection reserves the size of the whole request before it reads on, so that it can always finish the request. The
last reservation may exceed the limit by one request. Small requests never wait because they fit in the shared buffer.
A connection that does not read for a while keeps only the memory of the bytes that have arrived.

A client can announce a large request at no cost and then send nothing, or a byte now and then. While others wait for
memory, a connection is therefore closed if its client has sent nothing for a while, or sends so slowly that the whole
request would take too long. The same applies to a client that does not read its responses, so that its request waits.
"""

from typing import Protocol

import trio
from msgspec import Struct

SMALL_BYTES = 64 * 1024
STALLED_SECONDS_MAX = 10
"""How long others wait before connections are judged, and how long one that is judged has had at least."""
REQUEST_SECONDS_MAX = 60
"""How long a whole request may take at the average speed of its client, if others wait for its memory."""


class Holder(Protocol):
    """A connection that may reserve memory."""

    @property
    def stalled_since(self) -> float:
        """When the client last sent or read something; infinity unless the client has to go on first."""

    @property
    def arrived_bytes(self) -> int:
        """How much of the request has arrived."""

    def close(self, reason: str) -> None:
        """Closes the connection, which releases its memory."""


class _Reservation(Struct):
    """The memory that one connection has reserved for a request."""

    count: int
    since: float
    """When the request began to arrive."""
    arrived: int
    """How much of it had arrived when this was last looked at."""


class RequestMemory:
    """The reservations of all connections of a server."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._reserved: dict[Holder, _Reservation] = {}
        self._freed = trio.Event()
        self.reserved_bytes = 0

    async def reserve(self, owner: Holder, count: int) -> None:
        """Sets the owner's reservation to `count` bytes, waiting for others to release theirs if necessary."""
        while not self.has_reserved(owner, count):
            with trio.move_on_after(STALLED_SECONDS_MAX) as waiting:
                await self._freed.wait()
            if waiting.cancelled_caught:
                self._close_slow()

    def _close_slow(self) -> None:
        now = trio.current_time()
        for holder, reservation in list(self._reserved.items()):
            seconds = now - reservation.since
            if holder.stalled_since > now or seconds < STALLED_SECONDS_MAX:
                continue  # the client need not go on, or the request has only begun
            is_silent = now - holder.stalled_since >= STALLED_SECONDS_MAX
            if is_silent or holder.arrived_bytes * REQUEST_SECONDS_MAX < reservation.count * seconds:
                what = "the rest of a request did not arrive in time, or the responses to earlier ones were not read"
                holder.close(f"{what}, and other clients wait for its memory")

    def has_reserved(self, owner: Holder, count: int) -> bool:
        """Sets the owner's reservation to `count` bytes if that is possible without waiting; returns whether it was."""
        if count <= SMALL_BYTES:
            if owner in self._reserved:
                self.release(owner)
            return True
        reservation = self._reserved.get(owner)
        held = 0 if reservation is None else reservation.count
        if count > held and self.reserved_bytes - held >= self._limit_bytes:
            return False
        self.reserved_bytes += count - held
        arrived = owner.arrived_bytes
        if reservation is None or count != held or arrived < reservation.arrived:  # another request
            self._reserved[owner] = _Reservation(count, trio.current_time(), arrived)
        else:
            reservation.arrived = arrived
        if count < held:
            self._wake()
        return True

    def keep_arrived(self, owner: Holder) -> None:
        """Releases the memory that the owner has reserved for bytes that have not arrived yet."""
        reservation = self._reserved.get(owner)
        if reservation is None:
            return
        arrived = owner.arrived_bytes
        if arrived <= SMALL_BYTES:
            self.release(owner)
        elif arrived < reservation.count:
            self.reserved_bytes -= reservation.count - arrived
            reservation.count = arrived
            self._wake()

    def release(self, owner: Holder) -> None:
        """Releases the owner's reservation, if it has one."""
        freed = self._reserved.pop(owner, None)
        if freed is not None:
            self.reserved_bytes -= freed.count
            self._wake()

    def _wake(self) -> None:
        self._freed.set()
        self._freed = trio.Event()
