"""Damps the return of followers that left the live replica set because they lagged by too many records.

A follower that just keeps up with bursts would leave with each burst and enter again moments later. Each change is a
write to the store of the Streaming Controller. So such a follower enters only after it has kept up for a while, and
longer each time that it leaves again soon. A late return is safe, because only members of the set are waited for and
elected.
"""

import math

from msgspec import Struct

from tailrace.protocol.ids import SpuId

CALM_SECONDS_MIN = 1.0
"""How long a follower has to keep up after it left for the first time."""
REMEMBERED_SECONDS = 60.0
"""A follower that leaves within this time after it left before has to keep up twice as long."""


class _Absence(Struct):
    """What is known about a follower that left."""

    left_at: float
    calm_seconds: float
    """How long the follower has to keep up before it enters."""
    calm_since: float
    """Since when the follower has kept up."""


class LagDamping:
    """Decides when followers that lagged by too many records may enter again."""

    def __init__(self) -> None:
        self._absences: dict[SpuId, _Absence] = {}

    def on_left(self, spu: SpuId, now: float, calm_seconds_max: float) -> None:
        """Notes that a follower leaves because of its lag."""
        before = self._absences.get(spu)
        seconds = CALM_SECONDS_MIN
        if before is not None and now - before.left_at <= REMEMBERED_SECONDS:
            seconds = 2 * before.calm_seconds
        self._absences[spu] = _Absence(now, min(seconds, calm_seconds_max), now)

    def on_lag(self, spu: SpuId, lag_records: float, records_max: int, now: float) -> None:
        """Notes the lag of a follower. A lag of more than half of what is allowed ends the calm."""
        absence = self._absences.get(spu)
        if absence is not None and lag_records > records_max // 2:
            absence.calm_since = now

    def may_enter(self, spu: SpuId, now: float) -> bool:
        """Returns whether a follower never left because of its lag, or has kept up for long enough since."""
        absence = self._absences.get(spu)
        return absence is None or now >= absence.calm_since + absence.calm_seconds

    def next_entry_after(self, now: float) -> float:
        """Returns when the next follower may enter that may not enter now; infinity if there is none."""
        ends = (each.calm_since + each.calm_seconds for each in self._absences.values())
        return min((end for end in ends if end > now), default=math.inf)
