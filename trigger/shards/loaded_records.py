"""Decodes the records of fetched batches ahead of their turn, and knows the first one that is not handled.

The records from the first one that is not handled on are bounded in number, so that little is repeated if the replica
dies.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from .fetched_batches import FetchedBatch, FetchedBatches


class Numbered(Protocol):
    """A record, or something that stands for a whole batch."""

    @property
    def offset(self) -> int:
        """The offset of the record, or the first one of the batch."""


R = TypeVar("R", bound=Numbered)


class LoadedRecords(Generic[R]):
    """The records of one shard from the first one that is not handled to the last one that may be handed out."""

    def __init__(
        self,
        offset: int,
        batches: FetchedBatches,
        decode: Callable[[FetchedBatch, int], Iterable[R]],
        records_max: int,
    ) -> None:
        """Begins at an offset. `decode` returns the records of a batch from an offset on."""
        self.unhandled: dict[int, R] = {}
        """The records that were loaded and are not handled, by their offsets. The owner removes those that are."""
        self._batches = batches
        self._decode = decode
        self._records_max = records_max
        self._cursor = offset
        """All records before this offset were decoded."""
        self._decoded: deque[R] = deque()
        """Records before the cursor that were not loaded yet."""
        self._offsets: deque[int] = deque()
        """The offsets of all records that were loaded, from the first one on that is not handled."""

    @property
    def lowest(self) -> int:
        """The first record that is not handled."""
        self._forget_handled()
        if self._offsets:
            return self._offsets[0]
        if self._decoded:
            return self._decoded[0].offset
        self._cursor = self._batches.after_gap(self._cursor)
        return self._cursor

    def next(self, end: int) -> R | None:
        """Returns the next record before `end` that may be loaded; None if there is none, or too many are loaded."""
        if len(self._offsets) >= self._records_max:
            self._forget_handled()
            if len(self._offsets) >= self._records_max:
                return None
        while not self._decoded:
            self._cursor = self._batches.after_gap(self._cursor)
            batch = self._batches.find(self._cursor)
            if batch is None or self._cursor >= end:
                return None
            self._decoded.extend(self._decode(batch, self._cursor))
            self._cursor = batch.end
        record = self._decoded[0]
        return record if record.offset < end else None

    def load(self) -> None:
        """Loads the record that `next` has returned."""
        record = self._decoded.popleft()
        self.unhandled[record.offset] = record
        self._offsets.append(record.offset)

    def skip(self) -> None:
        """Counts the record that `next` has returned as handled."""
        self._decoded.popleft()

    def truncate(self, end: int) -> None:
        """Forgets all records at or after `end`."""
        self._cursor = min(self._cursor, end)
        self._decoded = deque(record for record in self._decoded if record.offset < end)
        self._offsets = deque(offset for offset in self._offsets if offset < end)
        for offset in [offset for offset in self.unhandled if offset >= end]:
            del self.unhandled[offset]

    def _forget_handled(self) -> None:
        while self._offsets and self._offsets[0] not in self.unhandled:
            self._offsets.popleft()
