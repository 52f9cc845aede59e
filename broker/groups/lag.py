"""How far groups are behind: what they have committed, held against how far consumers could read."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def farthest_behind(committed: Iterable[Committed], ends: Mapping[Place, int], count_max: int) -> list[Behind]:
    """Those of which there is the most to read, and no more of them than can be told."""
    return heapq.nlargest(count_max, _behind(committed, ends), key=_records)


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


def _behind(committed: Iterable[Committed], ends: Mapping[Place, int]) -> Iterator[Behind]:
    for each in committed:
        end = ends.get(each.place)
        # A leader that has just taken over may not know yet that all is committed that a consumer has read.
        yield Behind(each, None if end is None else max(0, end - each.offset))


def _records(behind: Behind) -> int:
    return -1 if behind.records is None else behind.records


def _seconds(records: int | None, written_ms: int | None, now_ms: int) -> float | None:
    if not records:
        return None if records is None else 0.0
    if written_ms is None or written_ms == NO_TIMESTAMP:
        return None
    return 0.0 if written_ms == NOTHING_THERE else max(0, now_ms - written_ms) / 1000
