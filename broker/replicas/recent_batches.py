"""The batches that a leader has appended in this turn: its followers are sent what just came, not what was read again.

To find a small batch in the log and read it back takes longer than all else that is done to send it. Whoever is behind
is sent what was read again, when the connection takes it: a copy for each would wait in memory.
"""

from tailrace.runtime.files import Buffer

BYTES_MAX = 128 * 1024
"""More than that goes from the page cache to the connection, and is never copied here."""
_NONE = -1


class RecentBatches:
    """Copies, for what was received lies in a buffer that the next connection receives into."""

    __slots__ = ("_base", "_batches", "_bytes", "_end")

    def __init__(self) -> None:
        self._batches: list[bytes] = []
        self._bytes = 0
        self._base = self._end = _NONE

    def add(self, batches: Buffer, base: int, end: int) -> None:
        """They were appended together behind the last ones, and go from here to there."""
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
        """All of them, if they go from here to there; None: they have to be read."""
        if base != self._base or end != self._end:
            return None
        if len(self._batches) > 1:
            self._batches = [b"".join(self._batches)]  # once for all followers
        return self._batches[0]

    def forget(self) -> None:
        """The turn is over, or the log has changed."""
        if self._base != _NONE:
            self._batches = []
            self._bytes = 0
            self._base = self._end = _NONE
