"""A member of a consumer group: decides which shards one replica handles, and until when. Pure.

A member reads the state of its group, decides, and writes the state back with compare-and-set. It does so in one loop:
`on_read` returns a `Write` or a `Wait`; the result of a write goes to `on_written`, `on_conflict` or `on_unavailable`,
which return a `Wait`; after the wait the member reads again. Times are those of `trio.current_time()`.

Why no two members ever handle one shard at once:

1. The state object has at most one owner for each shard, because each write replaces the state that its writer has
   read.
2. A member handles a shard only after a write that gave it the shard was acknowledged. It stops before it writes a
   state without the shard.
3. After an acknowledged heartbeat that was sent at time T, the member handles its shards until T + 95 % of its session
   timeout, even if it is frozen: workers know this time and begin no event after it. Without another acknowledged
   heartbeat it then gives up all shards.
4. Others remove the member's entry only if its last heartbeat is older than the session timeout of that entry. No
   decision compares wall clocks. The Streaming Controller (SC) measures the age from when it accepted the heartbeat,
   which was after T, and an SC that starts begins at age 0. So the entry stays until T + session timeout at least. An
   age that is old when it is used does no harm: after a newer heartbeat the compare-and-set fails.
5. An entry belongs to the process that is named in it. A restarted replica of the same name waits until the entry of
   its predecessor is gone or stale.

Clocks that run at rates which differ by up to 5 % do no harm. A machine that is suspended may stop its clock for
longer. Its late commits still move no offset, because each new owner commits with a higher epoch.
"""

import math
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from tailrace.cluster.stream_state.rebalance_causes import Rebalance, RebalanceCause
from tailrace.cluster.stream_state.stream_state import NO_VERSION, GroupState, StreamMember, StreamRead
from tailrace.runtime.backoff import PAUSE_SECONDS_MAX, doubled_pause_seconds

from .fair_shares import fair_share
from .member_lease import MemberLease, lease_from


class MembershipConfig(Struct, frozen=True, kw_only=True):
    """What a member must know of its trigger. Durations are in seconds."""

    member_id: str
    replicas: int = 1
    """The configured number of replicas, which counts if the SC knows of no deployed trigger."""
    session_timeout: float = 10.0
    heartbeat_interval: float = 3.0


class WaitReason(StrEnum):
    HEARTBEAT = "heartbeat"
    """The member has its share and waits until its next heartbeat is due."""
    BELOW_SHARE = "below-share"
    """The member has fewer shards than its share, because others still have them."""
    NOTHING_FREE = "nothing-free"
    """The member has no shards, because all are taken."""
    NAME_TAKEN = "name-taken"
    """Another process has an entry with the id of this member."""
    CONFLICT = "conflict"
    """Another member has changed the state since it was read."""
    UNAVAILABLE = "unavailable"
    """The state could not be read or written."""
    OUTDATED = "outdated"
    """The state that was read is older than the one that this member has written."""
    CHANGED = "changed"
    """Something has changed during a write, so the member reads again at once."""
    LEFT = "left"
    """The member has left the group, and does nothing more."""


class Wait(Struct, frozen=True):
    """The member does nothing until a time, or until the shell learns of something new."""

    until: float
    reason: WaitReason


class Write(Struct, frozen=True):
    """The member replaces the state, if the state still has its version."""

    state: GroupState
    expected_version: int
    rebalances: tuple[Rebalance, ...] = ()
    """What the write changes, if it succeeds."""


class _View(Struct, frozen=True, kw_only=True):
    """A state that was read, as this member sees it."""

    listed: frozenset[int]
    """The shards in the entry of this process."""
    existing: frozenset[int]
    """The shards of the stream."""
    heartbeat_ms: int | None
    """The last heartbeat in the entry with the id of this member, which may belong to another process."""
    stale: tuple[StreamMember, ...]
    others: tuple[StreamMember, ...]
    """The members that are not stale, without this process."""
    is_taken: bool
    """Whether another process has an entry with the id of this member that is not stale."""


class _Pending(Struct, frozen=True):
    """What a write that is under way says about this member."""

    epochs: Mapping[int, int]
    """The shards of the member after the write, with the epoch of each."""
    gains: frozenset[int]
    """The shards that the member does not handle yet."""
    share: int


class Member:
    """One replica in one consumer group."""

    def __init__(self, config: MembershipConfig, process: str) -> None:
        """Takes a random name of this process, which tells its entry from that of an earlier process."""
        assert process, "an entry names the process that wrote it"
        self.config = config
        self.process = process
        self.shards: dict[int, int] = {}
        """The shards that this member may handle now, with their epochs."""
        self.releasing: set[int] = set()
        """Shards of `shards` from which no new event may be handed out, until the shell calls `released`."""
        self.lease: MemberLease | None = None
        """Until when this member may handle its shards; None if it has none."""
        self.share = 0
        """The fair share of this member at its last read."""
        self.wait_reason = WaitReason.CHANGED
        """Why this member waits, or last waited."""
        self.has_left = False
        """Whether `leave` is done: nothing is handled any more, and the state has no entry of this process."""
        self._is_leaving = False
        self._version = NO_VERSION
        """The version of the last acknowledged write of the lease."""
        self._filled_share = 0
        """The last share that this member has had completely."""
        self._heartbeat_at = 0.0
        self._epoch_above = 0
        """Each shard needs an epoch above this one."""
        self._pending: _Pending | None = None
        self._failures = 0
        """The number of failed attempts in a row to read and write the state."""
        self._idle_looks = 0
        """The number of reads in a row that found no shard to take."""

    # What the shell reports

    def on_time(self, now: float) -> None:
        """Gives up all shards if the lease has ended."""
        if self.lease is not None and now >= self.lease.handle_until:
            self._lose_all()

    def on_read(self, now: float, wall_ms: int, fraction: float, read: StreamRead) -> Write | Wait:
        """Decides about a state that was read. `fraction` is a random number in [0, 1)."""
        self.on_time(now)
        if self.lease is not None and NO_VERSION < read.version < self._version:
            return self._retry(now, fraction, WaitReason.OUTDATED)
        view = self._view(read)
        self._keep(view.listed & view.existing)
        wanted = self._wanted(read, view)
        assert self.shards.keys() <= wanted, "what is handled is in the entry"
        is_changed = bool(view.stale or wanted != view.listed or wanted != self.shards.keys() or self._needs_epoch())
        if is_changed or (wanted and now >= self._heartbeat_at):
            return self._write(read, view, wanted, wall_ms)
        self._failures = 0
        return self._wait_after_read(now, fraction, read, view, wanted)

    def on_written(self, now: float, sent_at: float, version: int, fraction: float) -> Wait:
        """Takes over what a write has given this member. `sent_at` is a time before the write was sent."""
        self.on_time(now)
        pending = self._pending
        assert pending is not None, "only a write is acknowledged"
        self._pending = None
        if not pending.epochs:
            self._lose_all()
            self.has_left = self._is_leaving
            self._failures = 0
            return self._wait(math.inf, WaitReason.LEFT) if self.has_left else self._wait(now, WaitReason.CHANGED)
        lease = lease_from(sent_at, self.config.session_timeout)
        if now >= lease.handle_until:
            return self._retry(now, fraction, WaitReason.UNAVAILABLE)
        self._failures = 0
        self.lease = lease
        self._version = version
        if len(pending.epochs) == pending.share:
            self._filled_share = pending.share
        self._heartbeat_at = sent_at + self.config.heartbeat_interval
        gains = frozenset() if self._is_leaving else pending.gains
        self.shards = {
            shard: epoch for shard, epoch in pending.epochs.items() if shard in gains or shard in self.shards
        }
        if self.shards.keys() != pending.epochs.keys():
            return self._wait(now, WaitReason.CHANGED)
        if len(self.shards) < self.share:
            return self._look_again(now, fraction, WaitReason.BELOW_SHARE)
        return self._wait(self._heartbeat_at, WaitReason.HEARTBEAT)

    def on_conflict(self, now: float, fraction: float) -> Wait:
        """Waits after a write that failed because the state had changed."""
        self._pending = None
        return self._retry(now, fraction, WaitReason.CONFLICT)

    def on_unavailable(self, now: float, fraction: float) -> Wait:
        """Waits after a read or a write without a result. A write may have succeeded: the next read tells."""
        self._pending = None
        return self._retry(now, fraction, WaitReason.UNAVAILABLE)

    def released(self, shard: int) -> None:
        """Gives up a shard whose events are all handled and committed."""
        self.shards.pop(shard, None)
        self.releasing.discard(shard)

    def leave(self) -> None:
        """Begins to release all shards. The member takes no others."""
        self._is_leaving = True
        self.releasing = set(self.shards)

    def raise_epoch(self, above: int) -> None:
        """Demands epochs above one that a stored commit has. This is needed only if the store was made anew."""
        self._epoch_above = max(self._epoch_above, above)

    # Decisions

    def _view(self, read: StreamRead) -> _View:
        entry = read.state.member(self.config.member_id)
        is_own = entry is not None and entry.process == self.process
        stale = tuple(
            each for each in read.state.members if each.process != self.process and self._is_stale(each, read)
        )
        others = tuple(each for each in read.state.members if each not in stale and not (is_own and each is entry))
        return _View(
            listed=entry.shards if entry is not None and is_own else frozenset(),
            existing=frozenset(range(read.shards)),
            heartbeat_ms=entry.last_heartbeat_ms if entry is not None else None,
            stale=stale,
            others=others,
            is_taken=any(each.member_id == self.config.member_id for each in others),
        )

    def _wanted(self, read: StreamRead, view: _View) -> frozenset[int]:
        """Returns the shards that the entry of this member should have. Begins to release those beyond its share."""
        kept = view.listed & view.existing
        if view.is_taken:
            return frozenset()
        if self._is_leaving:
            return kept & self.shards.keys()
        counts = {each.member_id: len(each.shards) for each in view.others} | {self.config.member_id: len(kept)}
        self.share = fair_share(read.shards, read.replicas or self.config.replicas, self.config.member_id, counts)
        surplus = len(kept) - self.share
        if surplus > 0:
            return kept - self._give_up(kept, surplus)
        taken = frozenset[int]().union(*(each.shards for each in view.others))
        free = sorted(view.existing - taken - view.listed)
        return kept | frozenset(free[: self.share - len(kept)])

    def _give_up(self, kept: frozenset[int], surplus: int) -> frozenset[int]:
        """Returns shards that can be given up at once, because no event of theirs is handled; begins to release
        others."""
        more = max(0, surplus - len(self.releasing))
        idle = sorted(kept - self.shards.keys(), reverse=True)[:more]
        running = sorted(self.shards.keys() - self.releasing, reverse=True)
        self.releasing.update(running[: more - len(idle)])
        return frozenset(idle)

    def _write(self, read: StreamRead, view: _View, wanted: frozenset[int], wall_ms: int) -> Write:
        gains = wanted - self.shards.keys()
        renews = self._needs_epoch()
        epoch = max(read.state.epoch, self._epoch_above) + 1 if gains or renews else read.state.epoch
        if gains:
            self._idle_looks = 0
        members = view.others
        if wanted:
            heartbeat_ms = wall_ms if view.heartbeat_ms is None else max(wall_ms, view.heartbeat_ms + 1)
            timeout_ms = round(self.config.session_timeout * 1000)
            members += (StreamMember(self.config.member_id, wanted, heartbeat_ms, self.process, timeout_ms),)
        epochs = {shard: epoch if renews or shard in gains else self.shards[shard] for shard in wanted}
        self._pending = _Pending(epochs, gains, self.share)
        return Write(GroupState(members, epoch), read.version, self._rebalances(view, wanted, gains))

    def _needs_epoch(self) -> bool:
        return any(epoch <= self._epoch_above for epoch in self.shards.values())

    def _is_stale(self, member: StreamMember, read: StreamRead) -> bool:
        return read.ages_ms.get(member.member_id, 0) > self._timeout_ms(member)

    def _timeout_ms(self, member: StreamMember) -> int:
        return member.session_timeout_ms or round(self.config.session_timeout * 1000)

    def _rebalances(self, view: _View, wanted: frozenset[int], gains: frozenset[int]) -> tuple[Rebalance, ...]:
        changes = [
            Rebalance(RebalanceCause.STALE_MEMBER_REMOVED, each.member_id, each.shards, False) for each in view.stale
        ]
        me = self.config.member_id
        if given := view.listed - wanted:
            cause = RebalanceCause.LEFT if self._is_leaving else RebalanceCause.SCALED
            changes.append(Rebalance(cause, me, given, False))
        if gains:
            if not self.shards:
                cause = RebalanceCause.JOINED
            elif view.stale:
                cause = RebalanceCause.STALE_MEMBER_REMOVED
            else:
                cause = RebalanceCause.LEFT if self.share == self._filled_share else RebalanceCause.SCALED
            changes.append(Rebalance(cause, me, gains, True))
        return tuple(changes)

    # Waits

    def _wait_after_read(
        self, now: float, fraction: float, read: StreamRead, view: _View, wanted: frozenset[int]
    ) -> Wait:
        if self._is_leaving and not wanted:
            self.has_left = True
            return self._wait(math.inf, WaitReason.LEFT)
        if wanted and len(wanted) >= self.share:
            return self._wait(self._heartbeat_at, WaitReason.HEARTBEAT)
        if wanted:
            return self._look_again(now, fraction, WaitReason.BELOW_SHARE)
        wait = self._look_again(now, fraction, WaitReason.NAME_TAKEN if view.is_taken else WaitReason.NOTHING_FREE)
        # The member looks again at the moment at which another one may become stale.
        left_ms = (self._timeout_ms(each) - read.ages_ms.get(each.member_id, 0) for each in view.others)
        soon = now + (min(left_ms, default=math.inf) + 1 + 50 * fraction) / 1000
        return self._wait(min(wait.until, soon), wait.reason)

    def _look_again(self, now: float, fraction: float, reason: WaitReason) -> Wait:
        self._idle_looks += 1
        until = now + self._pause(self._idle_looks, fraction)
        return self._wait(until if self.lease is None else min(until, self._heartbeat_at), reason)

    def _retry(self, now: float, fraction: float, reason: WaitReason) -> Wait:
        self.on_time(now)
        self._failures += 1
        return self._wait(now + self._pause(self._failures, fraction), reason)

    def _pause(self, times: int, fraction: float) -> float:
        longest = min(PAUSE_SECONDS_MAX, self.config.heartbeat_interval / 3)
        return doubled_pause_seconds(times, fraction, longest=longest)

    def _wait(self, until: float, reason: WaitReason) -> Wait:
        self.wait_reason = reason
        return Wait(until, reason)

    # Losses

    def _keep(self, listed: frozenset[int]) -> None:
        """Gives up shards that the entry of this member has lost, although the member did not release them."""
        if not listed:
            self._lose_all()
        for shard in self.shards.keys() - listed:
            del self.shards[shard]
        self.releasing &= self.shards.keys()

    def _lose_all(self) -> None:
        self.shards.clear()
        self.releasing.clear()
        self.lease = None
        self._version = NO_VERSION
