"""Damps the departures of followers that lag by too many records.

A follower that just keeps up with bursts would leave the live replica set with each burst and enter again moments
later. Each change is a write to the store of the Streaming Controller. So a follower that left a moment ago may lag for
a while before it leaves again, and for twice as long each time. To leave late is safe, because the leader waits for
every member of the set. To enter is never delayed, because a partition may need the follower.
"""

import math

from msgspec import Struct

from tailrace.protocol.ids import SpuId

PATIENCE_SECONDS_MIN = 1.0
"""How long a follower may lag after it left for the first time."""
REMEMBERED_SECONDS = 60.0
"""How long a departure is remembered."""


class _Departure(Struct, frozen=True):
    left_at: float
    patience_seconds: float
    """How long the follower may lag before it leaves again."""


class LagDamping:
    """Decides when followers that lag by too many records leave."""

    def __init__(self) -> None:
        self._departures: dict[SpuId, _Departure] = {}
        self.lagging_since: dict[SpuId, float] = {}
        """Since when each follower that may lag for a while has lagged by too many records."""

    def leaves_at(self, spu: SpuId, now: float) -> float:
        """Notes that a follower lags by too many records; returns when it has to leave, which may be in the past."""
        departure = self._departures.get(spu)
        if departure is None or now > departure.left_at + REMEMBERED_SECONDS:
            return -math.inf
        return self.lagging_since.setdefault(spu, now) + departure.patience_seconds

    def on_kept_up(self, spu: SpuId, at: float) -> None:
        """Notes that a follower did not lag by too many records at that time."""
        since = self.lagging_since.get(spu)
        if since is not None and at >= since:
            del self.lagging_since[spu]

    def on_left(self, spu: SpuId, at: float, patience_seconds_max: float) -> None:
        """Notes that a follower has left because it lagged by too many records."""
        before = self._departures.get(spu)
        seconds = PATIENCE_SECONDS_MIN
        if before is not None and at <= before.left_at + REMEMBERED_SECONDS:
            seconds = 2 * before.patience_seconds
        self._departures[spu] = _Departure(at, min(seconds, patience_seconds_max))
        self.lagging_since.pop(spu, None)

    def next_departure(self, now: float) -> float:
        """Returns when the next follower has to leave that need not leave now; infinity if there is none."""
        ends = (since + self._departures[spu].patience_seconds for spu, since in self.lagging_since.items())
        return min((end for end in ends if end > now), default=math.inf)
