"""Pieces of a shard: records that are handled together, again or for the first time. Structs and their cuts."""

from collections.abc import Sequence

from msgspec import Struct

from tailrace.protocol.batches.records import Record
from tailrace.trigger.work import Chunk, Failure, Outcome, Shard

NEVER = float("inf")
UNLIMITED = 2**62


class Piece(Struct, frozen=True):
    """Records that come before the cursor, and were handed out before."""

    first: int
    end: int
    """The offset after the last record."""
    attempts: int = 0
    """How often the piece was handled already. If it is a range of single events, this counts for the first one."""
    due: float = 0.0
    """When the piece may be handled."""
    offsets: tuple[int, ...] | None = None
    """The offsets of its records, if not all between `first` and `end`."""

    def cut(self, first: int, end: int) -> "Piece | None":
        """Returns the part of this piece in a range of offsets; None if it has no record there."""
        first, end = max(first, self.first), min(end, self.end)
        if first >= end:
            return None
        if self.offsets is None:
            return Piece(first, end, self.attempts if first == self.first else 0, self.due)
        offsets = tuple(offset for offset in self.offsets if first <= offset < end)
        if not offsets:
            return None
        attempts = self.attempts if offsets[0] == self.first else 0
        return Piece(offsets[0], offsets[-1] + 1, attempts, self.due, offsets)


class Original(Struct, frozen=True):
    """A record as it was produced, and where."""

    shard: Shard
    offset: int
    record: Record | None
    """None if the record cannot be decoded."""
    batch: bytes = b""
    """The batch that cannot be decoded."""


class Failed(Struct, frozen=True):
    """An event, or a batch of events, that a worker could not handle."""

    offsets: Sequence[int]
    end: int
    """The offset after the last event."""
    attempts: int
    """How often it was handled, the failed attempt included."""
    failure: Failure


class Remains(Struct, frozen=True):
    """What an outcome leaves to decide about the records of its chunk."""

    first: int
    """The first record of the chunk."""
    opened: Sequence[tuple[int, int]] = ()
    """The records that wait for their acknowledgement, each with how often it was handled."""
    failed: Sequence[Failed] = ()


def opened_of(outcome: Outcome, first: int, handled_until: int) -> Sequence[int]:
    """Returns the events of a chunk that were handled and wait for their acknowledgement."""
    return [offset for offset in outcome.opened if first <= offset < handled_until]


def failed_range(chunk: Chunk, handled_until: int, failure: Failure) -> tuple[int, int]:
    """Returns the offsets that failed, from the first one to the end. Both lie in the chunk, whatever a broken worker
    has left behind."""
    first = min(max(failure.offset, handled_until), chunk.end - 1)
    return first, min(max(failure.end, first + 1), chunk.end)


def reported_of(failure: Failure, first: int, end: int) -> frozenset[int]:
    """Returns the events of a failed batch that the handler has reported as failed; empty if the whole batch failed."""
    return frozenset(offset for offset in failure.failed_offsets if first <= offset < end)
