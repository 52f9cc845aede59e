"""Computes the lag of groups from committed offsets and the ends of partitions."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from tailrace.protocol.ids import TopicId

NO_TIMESTAMP = -1
"""The timestamp of a record that has none."""
NOTHING_THERE = -2
"""Stands for the timestamp if there is no record to read, but perhaps control batches that consumers skip."""

PartitionKey = tuple[TopicId, int]
"""The topic id and the number of a partition."""


class GroupPosition(NamedTuple):
    """A committed offset of a group."""

    group_id: str
    topic: str
    partition_key: PartitionKey
    offset: int


class Backlog(NamedTuple):
    """How many records a group has not read of a partition."""

    committed: GroupPosition
    records: int | None
    """The number of records, or None if the end of the partition is unknown."""


class GroupLag(NamedTuple):
    """The lag of a group in one partition, as metrics report it."""

    group_id: str
    topic: str
    partition: int
    committed: int
    records: int | None
    seconds: float | None
    """The age of the next record to read; 0 if there is none, None if the age is unknown."""


class LargestLags:
    """Keeps the `count_max` committed offsets with the most unread records."""

    def __init__(self, ends: Mapping[PartitionKey, int], count_max: int) -> None:
        self._ends = ends
        self._count_max = count_max
        self._sequence = count()
        self._heap: list[tuple[int, int, GroupPosition]] = []
        """A heap with the smallest lag first, and a number that orders equal lags."""

    def add(self, committed: GroupPosition) -> None:
        end = self._ends.get(committed.partition_key)
        # The high watermark of a new leader may still be below the offset that a consumer has reached.
        records = _UNKNOWN if end is None else max(0, end - committed.offset)
        if len(self._heap) < self._count_max:
            heapq.heappush(self._heap, (records, next(self._sequence), committed))
        elif records > self._heap[0][0]:
            heapq.heapreplace(self._heap, (records, next(self._sequence), committed))

    def result(self) -> list[Backlog]:
        """Returns the kept offsets, the largest lag first and unknown lags last."""
        return [
            Backlog(committed, None if records == _UNKNOWN else records)
            for records, _, committed in sorted(self._heap, key=_largest_first)
        ]


_UNKNOWN = -1
"""Sorts an unknown lag after all known lags."""


def _largest_first(entry: tuple[int, int, GroupPosition]) -> tuple[int, int]:
    return -entry[0], entry[1]


def unread_offsets(behind: Iterable[Backlog]) -> dict[PartitionKey, list[int]]:
    """Returns for each partition the offsets, without duplicates, from which a group has records to read."""
    offsets: dict[PartitionKey, dict[int, None]] = {}
    for each in behind:
        if each.records:
            offsets.setdefault(each.committed.partition_key, {})[each.committed.offset] = None
    return {partition_key: list(found) for partition_key, found in offsets.items()}


def group_lags(
    behind: Sequence[Backlog], written_ms: Mapping[tuple[PartitionKey, int], int], now_ms: int
) -> list[GroupLag]:
    """Computes the lags. `written_ms` is the timestamp of the next record to read at each offset."""
    return [
        GroupLag(
            committed.group_id,
            committed.topic,
            committed.partition_key[1],
            committed.offset,
            records,
            _seconds(records, written_ms.get((committed.partition_key, committed.offset)), now_ms),
        )
        for committed, records in behind
    ]


def _seconds(records: int | None, written_ms: int | None, now_ms: int) -> float | None:
    if not records:
        return None if records is None else 0.0
    if written_ms is None or written_ms == NO_TIMESTAMP:
        return None
    return 0.0 if written_ms == NOTHING_THERE else max(0, now_ms - written_ms) / 1000
