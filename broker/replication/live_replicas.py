"""The live replica set as its leader keeps it: who leaves, who enters, and which set counts meanwhile.

Any member of the stored set may be elected, so whatever is committed must be on all of them. A smaller set counts only
when it is stored; a larger one at once, for nobody knows when it will be. So what counts is the stored set and the
proposed one together.

Each member is stored with its incarnation: the process that is known to have caught up. One that has restarted without
a clean stop is not elected until the leader has named its new process, for it may have lost what it acknowledged.
"""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from tailrace.protocol.ids import Epoch, SpuId

from .messages import ProposeLiveReplicas


@dataclass(frozen=True, slots=True)
class LagLimits:
    records_max: int
    """`lrs.max.lag.records`"""
    seconds_max: float
    """`lrs.max.lag.ms`"""


class LeaveReason(Enum):
    RECORDS = "its log end is too far behind"
    HIGH_WATERMARK = "its high watermark is too far behind"
    SILENCE = "it has not been at the leader's log end for too long"


@dataclass(frozen=True, slots=True)
class FollowerStanding:
    """How a follower stands, in the process that speaks."""

    incarnation: str
    matched_end: int
    high_watermark: int


class LiveReplicas:
    # `stored` and `version` are what the Streaming Controller says; both change together.

    def __init__(
        self,
        leader: SpuId,
        epoch: Epoch,
        stored: Mapping[SpuId, str],
        version: int,
        *,
        limits: LagLimits,
        retry_seconds: float,
        now: float,
    ) -> None:
        self._leader = leader
        self._epoch = epoch
        self._limits = limits
        self._retry_seconds = retry_seconds
        self._caught_up_at: dict[SpuId, float] = {spu: now for spu in stored if spu != leader}
        self._proposal: ProposeLiveReplicas | None = None
        self._proposed: tuple[tuple[SpuId, str], ...] = ()
        self._proposed_at = -math.inf
        self._is_announced = False
        """The first proposal says that this leader leads, whether it changes the set or not."""
        self.stored = dict(stored)
        self.version = version
        self.left: dict[SpuId, LeaveReason] = {}
        """Why, for those that the last proposal leaves out."""

    # what is

    @property
    def counting(self) -> AbstractSet[SpuId]:
        if self._proposal is None:
            return self.stored.keys()
        return self.stored.keys() | {spu for spu, _ in self._proposal.members}

    @property
    def deadline(self) -> float:
        if self._proposal is not None:
            return self._proposed_at + self._retry_seconds
        if not self._is_announced:
            return -math.inf
        silent_at = (self._caught_up_at.get(spu, -math.inf) for spu in self.stored if spu != self._leader)
        leaves_at = min(silent_at, default=math.inf) + self._limits.seconds_max
        return max(leaves_at, self._proposed_at + self._retry_seconds)

    # what happened

    def on_caught_up(self, spu: SpuId, at: float) -> None:
        """It had all that the leader had at that time."""
        self._caught_up_at[spu] = max(at, self._caught_up_at.get(spu, -math.inf))

    def on_offline(self, spu: SpuId) -> None:
        """The Streaming Controller has lost it: there is no use in waiting until it has been silent long enough."""
        self._caught_up_at[spu] = -math.inf

    def on_stored(self, version: int, members: Mapping[SpuId, str]) -> None:
        """What is stored now. A proposal made from an older version has been stored by then, or never will be."""
        if version <= self.version:
            return
        self.stored = dict(members)
        self.version = version
        self._proposal = None

    def propose(
        self,
        followers: Mapping[SpuId, FollowerStanding],
        *,
        log_end: int,
        high_watermark: int,
        entry_end: int,
        now: float,
    ) -> ProposeLiveReplicas | None:
        """What to ask the Streaming Controller for, now: a change, or once more the one that is under way.

        `entry_end` is all that the leader had when its epoch began. A follower must have that to enter: the high
        watermark that a new leader knows may be behind what was acknowledged.
        """
        if self._proposal is not None:
            if now < self._proposed_at + self._retry_seconds:
                return None
            self._proposed_at = now
            return self._proposal
        stay = self._staying(followers, log_end, high_watermark, now)
        enter = {
            spu: standing.incarnation
            for spu, standing in followers.items()
            if self.stored.get(spu) != standing.incarnation
            and standing.matched_end >= max(high_watermark, entry_end)
            and self._lag(spu, standing, log_end, high_watermark, now) is None
        }
        if stay == self.stored.keys() and not enter and self._is_announced:
            return None
        members = tuple((spu, enter.get(spu, "")) for spu in sorted(stay | enter.keys()))
        if members == self._proposed and now < self._proposed_at + self._retry_seconds:
            return None  # it was refused a moment ago: the leader does not know yet who has restarted
        self._proposed = members
        self._proposal = ProposeLiveReplicas(self._epoch, self.version, members)
        self._proposed_at = now
        self._is_announced = True
        return self._proposal

    def _staying(
        self, followers: Mapping[SpuId, FollowerStanding], log_end: int, high_watermark: int, now: float
    ) -> AbstractSet[SpuId]:
        self.left = {}
        for spu in self.stored.keys() - {self._leader}:
            reason = self._lag(spu, followers.get(spu), log_end, high_watermark, now)
            if reason is not None:
                self.left[spu] = reason
        return self.stored.keys() - self.left.keys()

    def _lag(
        self, spu: SpuId, standing: FollowerStanding | None, log_end: int, high_watermark: int, now: float
    ) -> LeaveReason | None:
        if now >= self._caught_up_at.get(spu, -math.inf) + self._limits.seconds_max:
            return LeaveReason.SILENCE
        if standing is not None and log_end - standing.matched_end > self._limits.records_max:
            return LeaveReason.RECORDS
        if standing is not None and high_watermark - standing.high_watermark > self._limits.records_max:
            return LeaveReason.HIGH_WATERMARK
        return None
