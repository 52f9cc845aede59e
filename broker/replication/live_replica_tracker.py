"""Tracks the live replica set for its leader: which replicas leave, which enter, and which set counts meanwhile.

Each member of the stored set may be elected, so each of them must have whatever is committed. A smaller set counts only
when it is stored. A larger set counts at once, because the leader cannot know when it is stored. So the counting set is
the stored set and the proposed set together.

Each member is stored with its store incarnation, which is known to have caught up. A store that may have lost something
since has another incarnation. It is not elected until the leader has named the new incarnation, because it may lack
what it acknowledged.

The set never becomes smaller than `min.insync.replicas` (as in KIP-966). Nothing can be committed while fewer replicas
are in sync, so a replica that would have to leave still has everything that was committed. It can still be elected,
like the last replica in sync.
"""

import math
from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct

from tailrace.protocol.ids import Epoch, SpuId

from .lag_damping import LagDamping
from .messages import ProposeLiveReplicas


class LagLimits(Struct, frozen=True):
    """How far a follower may lag and stay in the live replica set."""

    records_max: int
    """The config `lrs.max.lag.records`."""
    seconds_max: float
    """The config `lrs.max.lag.ms`, in seconds."""


class LeaveReason(Enum):
    """Why a member lags or leaves."""

    LOST = "it is lost, or its disk has failed"
    RECORDS = "its log end lags too far"
    HIGH_WATERMARK = "its high watermark lags too far"
    SILENCE = "it was not at the leader's log end for too long"


class FollowerState(Protocol):
    """The state of a follower's connected process, as the leader knows it."""

    @property
    def incarnation(self) -> str: ...

    @property
    def matched_end(self) -> int | None: ...

    @property
    def high_watermark_lag(self) -> int: ...

    @property
    def log_start(self) -> int: ...


class LiveReplicaTracker:
    # `stored` and `version` come from the SC and change together.

    """The live replica set of one leader epoch."""

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
        """The time until which each follower is known to have had everything; infinite while it has everything."""
        self.last_matched_ends: dict[SpuId, int] = {}
        """The last known matched ends of followers whose connections were lost."""
        self._damping = LagDamping()
        self._next_timeout = now + limits.seconds_max
        """The earliest time at which a follower may have been silent, or may have lagged, for too long."""
        self._proposal: ProposeLiveReplicas | None = None
        self._proposed: tuple[tuple[tuple[SpuId, str], ...], bool] = (), False
        self._proposed_at = -math.inf
        self._is_announced = False
        """Whether a proposal was sent. The first one tells the SC that this leader leads, even if it changes
        nothing."""
        self.stored = dict(stored)
        self.version = version
        self.counting = frozenset(stored)
        """The members that must have an entry before it is committed: the stored and the proposed ones."""
        self.lagging: dict[SpuId, LeaveReason] = {}
        """Members that lag, and why. They leave, or stay because too few would be left without them."""

    @property
    def has_enough_stored(self) -> bool:
        """Whether enough members are stored to commit anything. Proposed members cannot be elected yet. See
        `Replica.replicas_min`."""
        return len(self.stored) >= self._members_min

    @property
    def deadline(self) -> float:
        """When `propose` has to be called next."""
        if self._proposal is not None:
            return self._proposed_at + self._retry_seconds
        if not self._is_announced:
            return -math.inf
        again_at = self._proposed_at + self._retry_seconds
        return again_at if again_at > self._next_timeout else self._next_timeout

    # events

    def use_limits(self, limits: LagLimits, members_min: int) -> None:
        """Takes over other limits, and checks all members again."""
        self._limits, self._members_min = limits, members_min
        self._next_timeout = -math.inf

    def on_caught_up(self, spu: SpuId, at: float) -> None:
        """Notes that a follower had everything at that time; infinite if it will have everything until the next
        append."""
        if at > self._caught_up_at.get(spu, -math.inf):
            self._caught_up_at[spu] = at
            self.last_matched_ends.pop(spu, None)
            if self._damping.lagging_since:
                self._damping.on_kept_up(spu, at)
            if spu in self.lagging:
                self._next_timeout = -math.inf  # it may be in sync again: `propose` finds out

    def on_appended(self, log_end: int, matched: Mapping[SpuId, int], now: float) -> None:
        """Starts the lag of followers that had everything and lack the appended entries.

        A follower may have matched the new end already: recovery reports its appends late, and a follower that knows
        that it has everything does not repeat this.
        """
        for spu, at in self._caught_up_at.items():
            if at == math.inf and matched.get(spu, -1) < log_end:
                self._note_lagging_since(spu, now)

    def on_link_lost(self, spu: SpuId, now: float, matched_end: int | None = None) -> None:
        """Starts the lag of a follower whose connection is lost, and remembers how far it was."""
        if matched_end is not None:
            self.last_matched_ends[spu] = matched_end
        if self._caught_up_at.get(spu) == math.inf:
            self._note_lagging_since(spu, now)

    def on_offline(self, spu: SpuId) -> None:
        """Makes a follower leave at once that the SC has lost. There is no use in waiting until it has been silent for
        too long."""
        self._note_lagging_since(spu, -math.inf)

    def on_stored(self, version: int, members: Mapping[SpuId, str]) -> None:
        """Takes over what is stored. A proposal made from an older version is stored by now, or never will be."""
        if version <= self.version:
            return
        for spu in self.stored.keys() - members.keys():
            if self.lagging.get(spu) in (LeaveReason.RECORDS, LeaveReason.HIGH_WATERMARK):
                self._damping.on_left(spu, self._proposed_at, self._limits.seconds_max)
        self.stored = dict(members)
        self.version = version
        self._proposal = None
        self.counting = frozenset(members)
        self._next_timeout = -math.inf

    def propose(
        self,
        followers: Mapping[SpuId, FollowerState],
        *,
        log_end: int,
        high_watermark: int,
        required_end: int,
        log_start: int,
        has_taken_over: bool = False,
        now: float,
    ) -> ProposeLiveReplicas | None:
        """Returns what to propose to the SC now: a change, or again the proposal that is not answered yet.

        `required_end` is everything that the leader had when its epoch began. A follower must have matched this to
        enter, because the high watermark that a new leader knows may be smaller than what was acknowledged. The
        follower must also have deleted what is before `log_start`: a client may have been told that it is deleted. That
        a copy set has taken over is repeated until the epoch ends.
        """
        if self._proposal is not None:
            if now < self._proposed_at + self._retry_seconds:
                return None
            self._proposed_at = now
            return self._proposal
        if high_watermark > required_end:
            required_end = high_watermark
        if not has_taken_over and not self._may_change(followers, log_end, required_end, log_start, now):
            return None
        stay = self._members_staying(followers, log_end, now)
        enter = self._members_entering(followers, log_end, required_end, log_start, now)
        missing = self._members_min - len(stay | enter.keys())
        if missing > 0:
            stay |= set(sorted(self.lagging, key=lambda spu: self._caught_up_at.get(spu, -math.inf))[-missing:])
        if stay == self.stored.keys() and not enter and self._is_announced and not has_taken_over:
            return None
        members = tuple((spu, enter.get(spu, "")) for spu in sorted(stay | enter.keys()))
        if (members, has_taken_over) == self._proposed and now < self._proposed_at + self._retry_seconds:
            # The same proposal was refused a moment ago: the leader does not know yet which store has restarted.
            self._next_timeout = -math.inf
            return None
        self._proposed = members, has_taken_over
        self._proposal = ProposeLiveReplicas(self._epoch, self.version, members, has_taken_over)
        self._proposed_at = now
        self._is_announced = True
        self.counting = frozenset(self.stored.keys() | dict(members).keys())
        return self._proposal

    # members that leave and enter

    def _may_change(
        self,
        followers: Mapping[SpuId, FollowerState],
        log_end: int,
        required_end: int,
        log_start: int,
        now: float,
    ) -> bool:
        """Returns whether a proposal may be due. It is called with each batch and nearly always returns False, so it
        checks as little as possible."""
        if not self._is_announced or now >= self._next_timeout:
            return True
        for spu in self.lagging:
            if self._reason_to_leave(spu, followers.get(spu), log_end, now) is None:
                return True  # it lagged, had to stay, and is in sync again
        records_max = self._limits.records_max
        for spu, end in self.last_matched_ends.items():
            if log_end - end > records_max and spu in self.stored and spu not in self.lagging:
                return True
        for spu, state in followers.items():
            if (matched_end := state.matched_end) is None:
                continue
            if log_end - matched_end > records_max or state.high_watermark_lag > records_max:
                return True
            if (
                self.stored.get(spu) != state.incarnation
                and matched_end >= required_end
                and state.log_start >= log_start
            ):
                return True
        return False

    def _members_staying(self, followers: Mapping[SpuId, FollowerState], log_end: int, now: float) -> set[SpuId]:
        """Returns the stored members that do not lag, and notes those that do."""
        self.lagging = {}
        others = self.stored.keys() - {self._leader}
        for spu in others:
            reason = self._reason_to_leave(spu, followers.get(spu), log_end, now)
            if reason is not None:
                self.lagging[spu] = reason
        caught_up_at = min((self._caught_up_at[spu] for spu in others - self.lagging.keys()), default=math.inf)
        self._next_timeout = min(caught_up_at + self._limits.seconds_max, self._damping.next_departure(now))
        return self.stored.keys() - self.lagging.keys()

    def _members_entering(
        self,
        followers: Mapping[SpuId, FollowerState],
        log_end: int,
        required_end: int,
        log_start: int,
        now: float,
    ) -> dict[SpuId, str]:
        """Returns the members to add, with their store incarnations."""
        enter = {
            spu: state.incarnation
            for spu, state in followers.items()
            if self.stored.get(spu) != state.incarnation
            and state.matched_end is not None
            and state.matched_end >= required_end
            and state.log_start >= log_start
            and self._reason_to_leave(spu, state, log_end, now) is None
        }
        if self.stored.get(self._leader) != self._incarnation:
            enter[self._leader] = self._incarnation  # no replica has more than what its epoch began with
        return enter

    def _reason_to_leave(self, spu: SpuId, state: FollowerState | None, log_end: int, now: float) -> LeaveReason | None:
        """Returns why a follower lags too far; None if it does not, or if it is a member that need not leave yet."""
        caught_up_at = self._caught_up_at.get(spu, -math.inf)
        if now >= caught_up_at + self._limits.seconds_max:
            return LeaveReason.LOST if caught_up_at == -math.inf else LeaveReason.SILENCE
        matched_end = state.matched_end if state is not None else None
        if matched_end is None:
            matched_end = self.last_matched_ends.get(spu)  # the last known one
        reason = None
        if matched_end is not None and log_end - matched_end > self._limits.records_max:
            reason = LeaveReason.RECORDS
        elif state is not None and state.high_watermark_lag > self._limits.records_max:
            reason = LeaveReason.HIGH_WATERMARK
        if reason is None:
            self._damping.on_kept_up(spu, now)
        elif spu in self.stored and now < self._damping.leaves_at(spu, now):
            return None
        return reason

    def _note_lagging_since(self, spu: SpuId, at: float) -> None:
        """Notes that a follower may lack something since that time."""
        self._caught_up_at[spu] = at
        timeout = at + self._limits.seconds_max
        if timeout < self._next_timeout:
            self._next_timeout = timeout
