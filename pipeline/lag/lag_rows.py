"""The lag of a query in each partition, from its position, the ends of the log, and the time of the next record."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tailrace.client.log_facts import LogEnds, Partition

from .group_positions import KnownQuery

_NO_TIMESTAMP = -1


class LagRow(Struct, frozen=True):
    """How far a query is behind the end of one partition."""

    query: str
    """The name of the query, or its id if it has no name."""
    group: str
    """The group to which the position is committed; empty if it is not."""
    partition: Partition
    position: int
    """The offset that the query reads next."""
    end: int
    """The offset after the last record that consumers can read."""
    lag_records: int
    lag_seconds: float | None
    """The age of the first record that the query has not read, 0 if there is none, or None if the age is unknown."""
    is_active: bool


def unread(query: KnownQuery, ends: Mapping[Partition, LogEnds]) -> dict[Partition, int]:
    """Returns the first unread offset of each partition in which the query lags, the largest lags first."""
    lags = {
        each: max(position, ends[each].start)
        for each, position in query.positions.items()
        if each in ends and position < ends[each].end
    }
    return dict(sorted(lags.items(), key=lambda each: each[1] - ends[each[0]].end))


def lag_rows(
    query: KnownQuery, ends: Mapping[Partition, LogEnds], times: Mapping[Partition, int | None], now_ms: int
) -> Iterable[LagRow]:
    """Yields the lag of the query in each partition with a known end. `times` has timestamps of first unread records.

    A record that retention deleted before the query read it is no lag any more.
    """
    lagging = unread(query, ends)
    for partition, position in sorted(query.positions.items()):
        if partition not in ends:
            continue
        end = ends[partition].end
        seconds: float | None = 0.0
        if partition in lagging:
            since = times.get(partition)
            seconds = None if since is None or since == _NO_TIMESTAMP else max(0.0, (now_ms - since) / 1000)
        lag = end - lagging[partition] if partition in lagging else 0
        yield LagRow(query.name or query.query_id, query.group, partition, position, end, lag, seconds, query.is_active)
