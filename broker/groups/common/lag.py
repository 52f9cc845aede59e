"""How far groups are behind: what they have committed, held against how far consumers could read."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from tailrace.protocol.ids import TopicId

NO_TIMESTAMP = -1
"""Of what was written without one."""
NOTHING_THERE = -2
"""Instead of the time at which it was written: only what consumers pass over."""

Place = tuple[TopicId, int]
"""A partition."""


class Committed(NamedTuple):
    group_id: str
    topic: str
    place: Place
    offset: int


class Behind(NamedTuple):
    committed: Committed
    records: int | None
    """None where nobody says how far the partition goes."""


class Lag(NamedTuple):
    """What is told of one partition that a group reads."""

    group_id: str
    topic: str
    partition: int
    committed: int
    records: int | None
    seconds: float | None
    """The age of what the group has to read next; 0 where there is nothing, None where it is not known."""


class FarthestBehind:
    """Of all that were committed those with the most to read, and no more of them than can be told."""

    def __init__(self, ends: Mapping[Place, int], count_max: int) -> None:
        self._ends = ends
        self._count_max = count_max
        self._sequence = count()
        self._heap: list[tuple[int, int, Committed]] = []
        """The least one first."""

    def add(self, committed: Committed) -> None:
        end = self._ends.get(committed.place)
        # A leader that has just taken over may not know yet that all is committed that a consumer has read.
        records = _UNKNOWN if end is None else max(0, end - committed.offset)
        if len(self._heap) < self._count_max:
            heapq.heappush(self._heap, (records, next(self._sequence), committed))
        elif records > self._heap[0][0]:
            heapq.heapreplace(self._heap, (records, next(self._sequence), committed))

    def found(self) -> list[Behind]:
        """The farthest first."""
        return [
            Behind(committed, None if records == _UNKNOWN else records)
            for records, _, committed in sorted(self._heap, key=_farthest_first)
        ]


_UNKNOWN = -1
"""Told after all others."""


def _farthest_first(entry: tuple[int, int, Committed]) -> tuple[int, int]:
    return -entry[0], entry[1]


def unread(behind: Iterable[Behind]) -> dict[Place, list[int]]:
    """Where there is something to read, from which offsets on, each once."""
    offsets: dict[Place, dict[int, None]] = {}
    for each in behind:
        if each.records:
            offsets.setdefault(each.committed.place, {})[each.committed.offset] = None
    return {place: list(found) for place, found in offsets.items()}


def lags(behind: Sequence[Behind], written_ms: Mapping[tuple[Place, int], int], now_ms: int) -> list[Lag]:
    """`written_ms`: when that was written which is to be read there."""
    return [
        Lag(
            committed.group_id,
            committed.topic,
            committed.place[1],
            committed.offset,
            records,
            _seconds(records, written_ms.get((committed.place, committed.offset)), now_ms),
        )
        for committed, records in behind
    ]


def _seconds(records: int | None, written_ms: int | None, now_ms: int) -> float | None:
    if not records:
        return None if records is None else 0.0
    if written_ms is None or written_ms == NO_TIMESTAMP:
        return None
    return 0.0 if written_ms == NOTHING_THERE else max(0, now_ms - written_ms) / 1000
