"""How large a chunk should be: large enough to keep its worker busy for the time that a chunk may take, and no larger.

A record that a worker hands back must be sent to a worker again. So a slow function gets small chunks.
"""

from collections.abc import Sequence

from .fetched_batches import FetchedBatch

CHUNK_BYTES_MAX = 1024 * 1024
"""A chunk takes no further batch beyond this size."""
CHUNK_RECORDS_MAX = 50_000
_RECORDS_AT_FIRST = 100
_RESERVE = 1.5
"""A chunk has this many times the records that its worker is expected to handle in the time of a chunk."""


class ChunkSize:
    """Learns how long an event takes, and says how many records a chunk should have."""

    def __init__(self, seconds_max: float) -> None:
        self.seconds_max = seconds_max
        """How long a worker handles events of one chunk."""
        self.records = _RECORDS_AT_FIRST
        """How many records a chunk should have."""
        self._event_seconds = 0.0

    def learn(self, events: int, seconds: float) -> None:
        """Learns from how long these events took together."""
        if not events:
            return
        # A function that becomes slow is noticed at once, and one that becomes fast after a few chunks.
        event_seconds = seconds / events
        self._event_seconds = max(event_seconds, (self._event_seconds + event_seconds) / 2)
        wanted = _RESERVE * self.seconds_max / max(self._event_seconds, 1e-9)
        self.records = int(max(1, min(wanted, CHUNK_RECORDS_MAX)))

    def end(self, batches: Sequence[FetchedBatch], first: int, end: int) -> int:
        """Returns where a chunk of whole batches ends that begins at `first`; at most `end`."""
        records = size = 0
        chunk_end = first
        for batch in batches:
            if batch.base >= end or records >= self.records or (size and size + len(batch.data) > CHUNK_BYTES_MAX):
                break
            records += batch.header.record_count
            size += len(batch.data)
            chunk_end = batch.end
        return min(chunk_end, end)
