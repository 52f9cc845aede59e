"""The live replica set as its leader keeps it: who leaves, who enters, and which set counts meanwhile.

Any member of the stored set may be elected, so whatever is committed must be on all of them. A smaller set counts only
when it is stored; a larger one at once, for nobody knows when it will be. So what counts is the stored set and the
proposed one together.

Each member is stored with its incarnation: the store that is known to have caught up. One that may have lost something
since is another one, and is not elected until the leader has named it: it may lack what it acknowledged.

The set is never made smaller than `min.insync.replicas` (as in KIP-966). Nothing can be committed while so few are
left, so whoever would have to leave still has all that was: it stays electable, beside the last one standing.
"""

import math
from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct

from tailrace.protocol.ids import Epoch, SpuId

from .messages import ProposeLiveReplicas


class LagLimits(Struct, frozen=True):
    records_max: int
    """`lrs.max.lag.records`"""
    seconds_max: float
    """`lrs.max.lag.ms`"""


class LeaveReason(Enum):
    AWAY = "it is away, or has failed"
    RECORDS = "its log end is too far behind"
    HIGH_WATERMARK = "its high watermark is too far behind"
    SILENCE = "it has not been at the leader's log end for too long"


class FollowerStanding(Protocol):
    """How a follower stands, in the store that speaks."""

    @property
    def incarnation(self) -> str: ...

    @property
    def matched_end(self) -> int | None: ...

    @property
    def high_watermark_lag(self) -> int: ...

    @property
    def log_start(self) -> int: ...


class LiveReplicaTracker:
    # `stored` and `version` are what the Streaming Controller says; both change together.

    def __init__(
        self,
        leader: SpuId,
        incarnation: str,
        epoch: Epoch,
        stored: Mapping[SpuId, str],
        version: int,
        *,
        limits: LagLimits,
        members_min: int = 1,
        retry_seconds: float,
        now: float,
    ) -> None:
        self._leader = leader
        self._members_min = members_min
        self._incarnation = incarnation
        self._epoch = epoch
        self._limits = limits
        self._retry_seconds = retry_seconds
        self._caught_up_at: dict[SpuId, float] = {spu: now for spu in stored if spu != leader}
        """Until when each had all; inf: it still has."""
        self.last_ends: dict[SpuId, int] = {}
        """Of those whose links were lost: up to where they had said that they have the log."""
        self._silence_at = now + limits.seconds_max
        """Not before this time is anybody silent for too long."""
        self._proposal: ProposeLiveReplicas | None = None
        self._proposed: tuple[tuple[tuple[SpuId, str], ...], bool] = (), False
        self._proposed_at = -math.inf
        self._is_announced = False
        """The first proposal says that this leader leads, whether it changes the set or not."""
        self.stored = dict(stored)
        self.version = version
        self.counting = frozenset(stored)
        """Whatever is committed must be on all of these."""
        self.left: dict[SpuId, LeaveReason] = {}
        """Members that lag behind, and why: they leave, or stay because there would be too few without them."""

    @property
    def are_enough(self) -> bool:
        """Whether anything may be committed: on so many members that each may be elected, which only the stored are."""
        return len(self.stored) >= self._members_min

    @property
    def deadline(self) -> float:
        if self._proposal is not None:
            return self._proposed_at + self._retry_seconds
        if not self._is_announced:
            return -math.inf
        again_at = self._proposed_at + self._retry_seconds
        return again_at if again_at > self._silence_at else self._silence_at

    # what happened

    def use(self, limits: LagLimits, members_min: int) -> None:
        """Other limits than before."""
        self._limits, self._members_min = limits, members_min
        self._silence_at = -math.inf

    def on_caught_up(self, spu: SpuId, at: float) -> None:
        """It had all that the leader had at that time; inf: it has all, until something is appended."""
        if at > self._caught_up_at.get(spu, -math.inf):
            self._caught_up_at[spu] = at
            self.last_ends.pop(spu, None)
            if spu in self.left:
                self._silence_at = -math.inf  # it may be well again: `propose` finds out

    def on_appended(self, log_end: int, matched: Mapping[SpuId, int], now: float) -> None:
        """From now on nobody has all but who has matched that end: what recovery appends is said when it may be known
        to be there already, and who knows that it has all says nothing more."""
        for spu, at in self._caught_up_at.items():
            if at == math.inf and matched.get(spu, -1) < log_end:
                self._fall_behind(spu, now)

    def on_link_lost(self, spu: SpuId, now: float, matched_end: int | None = None) -> None:
        """From now on nobody knows what it has, but that it had the log up to there, if it had said so."""
        if matched_end is not None:
            self.last_ends[spu] = matched_end
        if self._caught_up_at.get(spu) == math.inf:
            self._fall_behind(spu, now)

    def on_offline(self, spu: SpuId) -> None:
        """The Streaming Controller has lost it: there is no use in waiting until it has been silent long enough."""
        self._fall_behind(spu, -math.inf)

    def on_stored(self, version: int, members: Mapping[SpuId, str]) -> None:
        """What is stored now. A proposal made from an older version has been stored by then, or never will be."""
        if version <= self.version:
            return
        self.stored = dict(members)
        self.version = version
        self._proposal = None
        self.counting = frozenset(members)
        self._silence_at = -math.inf

    def propose(
        self,
        followers: Mapping[SpuId, FollowerStanding],
        *,
        log_end: int,
        high_watermark: int,
        entry_end: int,
        log_start: int,
        has_taken_over: bool = False,
        now: float,
    ) -> ProposeLiveReplicas | None:
        """What to ask the Streaming Controller for, now: a change, or once more the one that is under way.

        `entry_end` is all that the leader had when its epoch began. A follower must have that to enter: the high
        watermark that a new leader knows may be behind what was acknowledged. And it must have deleted what is before
        `log_start`, of which somebody was told that it is gone. That a copy set has taken over from another is said
        again and again, until the epoch ends for it.
        """
        if self._proposal is not None:
            if now < self._proposed_at + self._retry_seconds:
                return None
            self._proposed_at = now
            return self._proposal
        if high_watermark > entry_end:
            entry_end = high_watermark
        if not has_taken_over and not self._may_change(followers, log_end, entry_end, log_start, now):
            return None
        stay = self._staying(followers, log_end, now)
        enter = self._entering(followers, log_end, entry_end, log_start, now)
        missing = self._members_min - len(stay | enter.keys())
        if missing > 0:
            stay |= set(sorted(self.left, key=lambda spu: self._caught_up_at.get(spu, -math.inf))[-missing:])
        if stay == self.stored.keys() and not enter and self._is_announced and not has_taken_over:
            return None
        members = tuple((spu, enter.get(spu, "")) for spu in sorted(stay | enter.keys()))
        if (members, has_taken_over) == self._proposed and now < self._proposed_at + self._retry_seconds:
            self._silence_at = -math.inf  # it was refused a moment ago: not known yet who has restarted
            return None
        self._proposed = members, has_taken_over
        self._proposal = ProposeLiveReplicas(self._epoch, self.version, members, has_taken_over)
        self._proposed_at = now
        self._is_announced = True
        self.counting = frozenset(self.stored.keys() | dict(members).keys())
        return self._proposal

    # who leaves, who enters

    def _may_change(
        self,
        followers: Mapping[SpuId, FollowerStanding],
        log_end: int,
        entry_end: int,
        log_start: int,
        now: float,
    ) -> bool:
        """Asked with each batch, and nearly always no: so it looks at as little as it can."""
        if not self._is_announced or now >= self._silence_at:
            return True
        for spu in self.left:
            if self._lag(spu, followers.get(spu), log_end, now) is None:
                return True  # it had to stay, and is well again
        records_max = self._limits.records_max
        for spu, end in self.last_ends.items():
            if log_end - end > records_max and spu in self.stored and spu not in self.left:
                return True
        for spu, standing in followers.items():
            if (matched_end := standing.matched_end) is None:
                continue
            if log_end - matched_end > records_max or standing.high_watermark_lag > records_max:
                return True
            if (
                self.stored.get(spu) != standing.incarnation
                and matched_end >= entry_end
                and standing.log_start >= log_start
            ):
                return True
        return False

    def _staying(self, followers: Mapping[SpuId, FollowerStanding], log_end: int, now: float) -> set[SpuId]:
        self.left = {}
        others = self.stored.keys() - {self._leader}
        for spu in others:
            reason = self._lag(spu, followers.get(spu), log_end, now)
            if reason is not None:
                self.left[spu] = reason
        caught_up_at = min((self._caught_up_at[spu] for spu in others - self.left.keys()), default=math.inf)
        self._silence_at = caught_up_at + self._limits.seconds_max
        return self.stored.keys() - self.left.keys()

    def _entering(
        self,
        followers: Mapping[SpuId, FollowerStanding],
        log_end: int,
        entry_end: int,
        log_start: int,
        now: float,
    ) -> dict[SpuId, str]:
        enter = {
            spu: standing.incarnation
            for spu, standing in followers.items()
            if self.stored.get(spu) != standing.incarnation
            and standing.matched_end is not None
            and standing.matched_end >= entry_end
            and standing.log_start >= log_start
            and self._lag(spu, standing, log_end, now) is None
        }
        if self.stored.get(self._leader) != self._incarnation:
            enter[self._leader] = self._incarnation  # nobody has more than what its epoch began with
        return enter

    def _lag(self, spu: SpuId, standing: FollowerStanding | None, log_end: int, now: float) -> LeaveReason | None:
        caught_up_at = self._caught_up_at.get(spu, -math.inf)
        if now >= caught_up_at + self._limits.seconds_max:
            return LeaveReason.AWAY if caught_up_at == -math.inf else LeaveReason.SILENCE
        matched_end = standing.matched_end if standing is not None else None
        if matched_end is None:
            matched_end = self.last_ends.get(spu)  # as far as anybody knows
        if matched_end is not None and log_end - matched_end > self._limits.records_max:
            return LeaveReason.RECORDS
        if standing is not None and standing.high_watermark_lag > self._limits.records_max:
            return LeaveReason.HIGH_WATERMARK
        return None

    def _fall_behind(self, spu: SpuId, at: float) -> None:
        self._caught_up_at[spu] = at
        silence_at = at + self._limits.seconds_max
        if silence_at < self._silence_at:
            self._silence_at = silence_at
