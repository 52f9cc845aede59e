"""The records of open transactions: they take effect when their producer commits, and are dropped when it aborts.

Of all records with one key that are not aborted, the last one in the log takes effect, whatever the order of the
markers is. Compaction keeps the same one. A record that can no longer take effect stays pending, without its value,
until the transaction of its producer ends.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PendingRecord(NamedTuple, Generic[K, V]):
    """A record of an open transaction."""

    producer_id: int
    key: K
    value: V | None
    """None if a later record has the same key and is committed."""


class _Pending(Generic[V]):
    __slots__ = ("order", "value")

    def __init__(self, order: int, value: V | None) -> None:
        self.order = order
        """The place of the record in the log, compared with other pending records."""
        self.value = value


class PendingRecords(Generic[K, V]):
    def __init__(self) -> None:
        self._by_producer: dict[int, dict[K, _Pending[V]]] = {}
        self._producers: dict[K, set[int]] = {}
        """The producers with a pending record, by key."""
        self._order = 0
        self._count = 0

    # state

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: K) -> bool:
        """Returns whether an open transaction has a record with this key."""
        return key in self._producers

    def __iter__(self) -> Iterator[PendingRecord[K, V]]:
        """Yields the records in the order of the log."""
        found = [
            (pending.order, PendingRecord(producer_id, key, pending.value))
            for producer_id, records in self._by_producer.items()
            for key, pending in records.items()
        ]
        found.sort(key=lambda each: each[0])
        return (record for _, record in found)

    def of_key(self, key: K) -> list[PendingRecord[K, V]]:
        """Returns the pending records with this key, one for each producer."""
        return [
            PendingRecord(producer_id, key, self._by_producer[producer_id][key].value)
            for producer_id in self._producers.get(key, ())
        ]

    # events, in the order of the log

    def put(self, producer_id: int, key: K, value: V | None) -> None:
        """Notes a record of an open transaction. It replaces an earlier one of the same producer."""
        self._order += 1
        records = self._by_producer.setdefault(producer_id, {})
        self._count += key not in records
        records[key] = _Pending(self._order, value)
        self._producers.setdefault(key, set()).add(producer_id)

    def supersede(self, key: K) -> None:
        """Notes a record outside of transactions. Earlier records with its key will not take effect."""
        for producer_id in self._producers.get(key, ()):
            self._by_producer[producer_id][key].value = None

    def discard(self, key: K) -> bool:
        """Forgets the pending records with this key, because it was deleted. Returns False if there are none."""
        producers = self._producers.pop(key, None)
        for producer_id in producers or ():
            records = self._by_producer[producer_id]
            del records[key]
            self._count -= 1
            if not records:
                del self._by_producer[producer_id]
        return producers is not None

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[K, V | None]]:
        """Ends the transaction of the producer. Returns its keys, with the values that take effect now, or None."""
        ended = []
        records = self._by_producer.pop(producer_id, {})
        self._count -= len(records)
        for key, pending in records.items():
            others = self._producers[key]
            others.remove(producer_id)
            if not others:
                del self._producers[key]
            if is_commit and pending.value is not None:
                for other in others:
                    earlier = self._by_producer[other][key]
                    if earlier.order < pending.order:
                        earlier.value = None
            ended.append((key, pending.value if is_commit else None))
        return ended
