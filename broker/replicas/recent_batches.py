"""The batches that a leader has appended in this turn, kept in memory for its followers.

Finding a small batch in the log and reading it back takes longer than everything else that sending needs. A follower
that lags is sent what is read from the log when its connection is ready: a copy for each of them would wait in memory.
"""

from tailrace.runtime.files import Buffer

BYTES_MAX = 128 * 1024
"""Larger batches go from the page cache to the connection and are never copied here."""
_NONE = -1


class RecentBatches:
    """The recent batches of one replica. They are copies, because the received bytes lie in a buffer that the next
    connection receives into."""

    __slots__ = ("_base", "_batches", "_bytes", "_end")

    def __init__(self) -> None:
        self._batches: list[bytes] = []
        self._bytes = 0
        self._base = self._end = _NONE

    def add(self, batches: Buffer, base: int, end: int) -> None:
        """Adds batches that were appended together behind the last ones and cover these offsets."""
        size = len(batches)
        if base != self._end or self._bytes + size > BYTES_MAX:
            self.forget()
            if size > BYTES_MAX:
                return
            self._base = base
        self._batches.append(bytes(batches))
        self._bytes += size
        self._end = end

    def between(self, base: int, end: int) -> bytes | None:
        """Returns the bytes of all batches if they cover exactly these offsets; None if they have to be read from the
        log."""
        if base != self._base or end != self._end:
            return None
        if len(self._batches) > 1:
            self._batches = [b"".join(self._batches)]  # once for all followers
        return self._batches[0]

    def forget(self) -> None:
        """Drops the batches, because the turn is over or the log has changed."""
        if self._base != _NONE:
            self._batches = []
            self._bytes = 0
            self._base = self._end = _NONE
