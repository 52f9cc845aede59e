"""A leader replica in one epoch: seals its copy set, recovers, replicates and commits.

Whatever it acknowledges is found by each later leader: on every live replica, or on so many stores that each sealing
includes one. While it serves it never truncates its log, so its epoch and an offset name one content for ever.

A follower that has everything, and knows that it is committed, gets no messages: thousands of idle partitions cost
nothing. Whether its SPU is still there is a matter of the connection.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

from .append_builder import AppendBuilder
from .entries import Entry, EntryLog, end_of, entry_at, portions
from .follower_progress import FollowerProgress
from .high_watermark import HighWatermark, high_watermark_at_start
from .live_replica_tracker import LagLimits, LiveReplicaTracker
from .messages import Append, AppendReply, Fenced, Hello, Message, Seal, SealReply
from .policy import ReplicationPolicy
from .ready import (
    AdvanceLogStart,
    AppendEntries,
    EndDoubt,
    ExpectStamped,
    Persist,
    Ready,
    Restamp,
    StorePromise,
    Sync,
)
from .recovery import bridge_entry, recovered_log
from .rewriting import changes_to_match
from .sealing import Promise, Sealing


class LeaderLimits(Struct, frozen=True):
    """Limits of a leader's messages."""

    append_bytes_max: int = 1 << 20
    appends_in_flight_max: int = 8
    """How many messages may be in flight to one follower; with `append_bytes_max` this is the window."""
    first_appends_max: int = 1
    """The limit for a follower that has not replied yet and lacks committed entries. It may lack so much that it copies
    it from another follower."""
    resend_seconds: float = 0.5
    """After this time without a reply, a follower that lacks something is sent a message again."""
    high_watermark_delay_seconds: float = 0.01
    """How long a new high watermark waits for entries that carry it."""
    recovered_bytes_max: int = 4 << 20
    recovered_entries_max: int = 1000
    """How many entries recovery appends in one step. `recovered_bytes_max` limits their size."""


class Leader:
    """A leader replica: decides what to do with each message, append and spec."""

    def __init__(
        self,
        spu: SpuId,
        epoch: Epoch,
        copy_set: Collection[SpuId],
        *,
        log: EntryLog,
        promise: Promise,
        high_watermark: HighWatermark,
        in_doubt: bool,
        policy: ReplicationPolicy,
        live_replicas: LiveReplicaTracker,
        limits: LeaderLimits,
        syncs_before_acknowledging: bool = False,
        was_unclean: bool = False,
        now: float,
    ) -> None:
        self._spu = spu
        self._copy_set = frozenset(copy_set)
        self._log = log
        self._promise = promise
        self._high_watermark = high_watermark
        self._recovers_from = 0
        self._use_own_high_watermark(promise.epoch)
        if was_unclean:
            # The leader elected uncleanly, and later ones, may lack what was committed in that epoch.
            high_watermark.epoch = NO_EPOCH
        self._policy = policy
        self._limits = limits
        self._followers: dict[SpuId, FollowerProgress] = {}
        self._matched: dict[SpuId, int] = {}
        """The matched end of each follower, and the end of the leader's own log that counts."""
        self._offline: set[SpuId] = set()
        self._sealing = Sealing(policy)
        self._known_high_watermark = HighWatermark(high_watermark.value, high_watermark.epoch)
        """The largest high watermark that any store is known to have."""
        self._pending_log_start = 0
        """The larger log start of another store, which waits until everything before it is known to be committed; 0 if
        there is none."""
        self._announce_at = math.inf
        """When to announce the high watermark and log start to followers that have not learned them with entries."""
        self._appended_at = -math.inf
        self._synced_end = 0
        self._appends = AppendBuilder(epoch, log, limits.append_bytes_max)
        self._was_unclean = was_unclean
        """Whether there ever was an unclean election, so that this leader or an earlier one may lack committed
        entries."""
        self._ready = Ready()
        self.epoch = epoch
        self.live_replicas = live_replicas
        self.syncs_before_acknowledging = syncs_before_acknowledging
        """Whether the leader's own log counts only as far as `on_synced` says that it is on disk."""
        self.is_serving = False
        """Whether the leader accepts batches. Before that, the end of the log is not known."""
        self.is_stopping = False
        self.is_over = False
        self.recovered_end = 0
        """The end of what earlier epochs left, including the bridge. It is one segment, which is sealed when this end
        is committed."""
        self.has_taken_over = False
        """Whether enough stores of the last copy set have everything that earlier epochs left."""
        if promise.renew(epoch):
            self._ready.persist.append(StorePromise(epoch))
        self._seal_own_store(in_doubt)
        self._recover_if_sealed(now)

    # state

    @property
    def high_watermark(self) -> int:
        return self._high_watermark.value

    @property
    def high_watermark_epoch(self) -> Epoch:
        return self._high_watermark.epoch

    @property
    def has_sealed_earlier_segments(self) -> bool:
        """Whether everything that earlier epochs left is committed in this epoch."""
        return self.is_serving and self.high_watermark >= self.recovered_end

    @property
    def deleted_end(self) -> int:
        """The offset before which records are deleted for good: each possible next leader knows about it."""
        log_starts = {spu: follower.log_start for spu, follower in self._followers.items()}
        log_starts[self._spu] = self._log.log_start
        return self._policy.committed_end(log_starts, self.live_replicas.counting)

    @property
    def is_settled(self) -> bool:
        """Whether everything is committed and every live replica knows it, so that the next leader has nothing to
        recover."""
        log_end = self._log.log_end
        followers = [self._followers.get(spu) for spu in self.live_replicas.counting if spu != self._spu]
        return self.high_watermark == log_end and all(
            follower is not None and follower.high_watermark == log_end for follower in followers
        )

    @property
    def deadline(self) -> float:
        """When `on_deadline` has to be called next."""
        if self.is_over:
            return math.inf
        deadline = math.inf
        if self.is_serving:
            deadline = self.live_replicas.deadline
            if self._announce_at < deadline:
                deadline = self._announce_at
        for follower in self._followers.values():
            if follower.resend_at < deadline:
                deadline = follower.resend_at
        return deadline

    @property
    def can_commit(self) -> bool:
        """Whether the connected followers are enough to commit what is appended now."""
        speaking = dict.fromkeys([self._spu, *self._followers], 1)
        return self._policy.committed_end(speaking, self.live_replicas.counting) > 0

    def follower_matched_end(self, spu: SpuId) -> int | None:
        """Returns the end up to which a connected follower is known to have this log."""
        return self._matched.get(spu)

    def follower_last_matched_end(self, spu: SpuId) -> int | None:
        """Returns the last known matched end of a follower in this epoch, even if its connection was lost since."""
        end = self._matched.get(spu)
        return self.live_replicas.last_matched_ends.get(spu) if end is None else end

    def holders_of(self, entry: Entry) -> list[SpuId]:
        """Returns the followers that had this entry when they were sealed."""
        held = {spu: entry_at(reply.entries, entry.base) for spu, reply in self._sealing.replies.items()}
        return [spu for spu, each in held.items() if spu != self._spu and each is not None and entry.is_same_as(each)]

    # events

    def on_hello(self, hello: Hello, now: float) -> None:
        """Seals a follower that is connected now."""
        if not self._is_of_this_epoch(hello.epoch, hello.spu) or hello.spu not in self._copy_set:
            return
        if hello.has_failed:
            self._remove_failed_follower(hello.spu, now)
            return
        self._offline.discard(hello.spu)
        follower = self._followers.get(hello.spu)
        if follower is None or follower.incarnation != hello.incarnation:
            follower = self._followers[hello.spu] = FollowerProgress(hello.incarnation)
            self._matched.pop(hello.spu, None)
            self.live_replicas.on_link_lost(hello.spu, now)
        self._seal(hello.spu, follower, now)

    def on_seal_reply(self, reply: SealReply, now: float) -> None:
        """Counts a promise, and starts replicating to the follower."""
        follower = self._current_follower(reply.epoch, reply.spu, reply.incarnation, now)
        if follower is None:
            return
        follower.high_watermark = reply.high_watermark
        if reply.log_start <= reply.high_watermark:
            follower.log_start = reply.log_start
        if not self.is_serving:
            follower.resend_at = math.inf
            self._sealing.add(reply)
            self._recover_if_sealed(now)
        else:
            self._start_replicating(reply.spu, follower, now)
            self._learn_high_watermark(reply.high_watermark, reply.high_watermark_epoch)
            self._pending_log_start = max(self._pending_log_start, follower.log_start)
            self._take_over_log_start()
            self._commit(now)
            self._resend(reply.spu, follower, now)

    def on_append_reply(self, reply: AppendReply, now: float) -> None:
        """Notes how far a follower is, sends it more, and commits."""
        spu = reply.spu
        follower = self._current_follower(reply.epoch, spu, reply.incarnation, now)
        if follower is None or follower.matched_end is None:
            return
        log_start_before = follower.log_start
        if follower.on_reply(reply):
            self._ready.suspect_from = follower.matched_end
        self._matched[spu] = follower.matched_end
        if reply.log_start > log_start_before and not self._was_unclean:
            # This follower once led, and was still deleting when it was sealed.
            self._pending_log_start = max(self._pending_log_start, min(reply.log_start, reply.high_watermark))
            self._take_over_log_start()
        log_end = self._log.log_end
        caught_up_at = follower.caught_up_at(log_end, now)
        if caught_up_at is not None:
            self.live_replicas.on_caught_up(spu, caught_up_at)
        follower.resend_at = now + self._limits.resend_seconds
        if follower.sent_end < log_end:
            self._send_appends(spu, follower, log_end, now)
        self._commit(now)
        if (
            reply.matched_end == reply.log_end == log_end
            and reply.high_watermark >= self._high_watermark.value
            and reply.log_start >= self._log.log_start
        ):
            follower.resend_at = math.inf

    def on_appended(self, now: float) -> None:
        """Replicates what was appended: a producer's batches, or what this leader's recovery has just appended."""
        assert self.is_serving and not self.is_over
        self._sealing.replies.clear()  # everything recovered is in the log now, and the descriptions may be large
        self._appended_at = now
        log_end = self._log.log_end
        self.live_replicas.on_appended(log_end, self._matched, now)
        for spu, follower in self._followers.items():
            self._send_appends(spu, follower, log_end, now)
        self._commit(now)

    def on_synced(self, end: int, now: float) -> None:
        """Counts the leader's own log as far as it is on disk."""
        if end > self._synced_end:
            self._synced_end = end
            self._commit(now)

    def on_deleted(self, now: float) -> None:
        """Announces that the log start has moved."""
        self._appends.invalidate()
        if self.is_serving and not self.is_over:
            self._announce_at = min(self._announce_at, now + self._limits.high_watermark_delay_seconds)

    def on_compacted(self) -> None:
        """Forgets cached entries, because some are gone or have lost records."""
        self._appends.invalidate()

    def on_link_lost(self, spu: SpuId, now: float) -> None:
        """Forgets what was sent to a follower whose connection is lost. The follower says Hello again if it is still
        there."""
        self._followers.pop(spu, None)
        matched_end = self._matched.pop(spu, None)
        if spu in self._offline:
            self.live_replicas.on_offline(spu)
        else:
            self.live_replicas.on_link_lost(spu, now, matched_end)
        self._commit(now)

    def on_offline(self, spu: SpuId, now: float) -> None:
        """Notes that the SC has lost this SPU. While the SPU is connected to this leader, it counts as live."""
        self._offline.add(spu)
        if spu not in self._followers:
            self.live_replicas.on_offline(spu)
            self._commit(now)

    def on_online(self, spu: SpuId) -> None:
        """Notes that the SC has found this SPU again. From now on a lost connection does not mean that the SPU is
        lost."""
        self._offline.discard(spu)

    def on_copy_set(self, copy_set: Collection[SpuId], now: float) -> None:
        """Takes over another copy set. New members say Hello; messages of removed ones are ignored."""
        self._copy_set = frozenset(copy_set)
        for spu in self._followers.keys() - self._copy_set:
            self.on_link_lost(spu, now)

    def use_policy(self, policy: ReplicationPolicy, limits: LagLimits, now: float) -> None:
        """Takes over another minimum of live replicas, or other lag limits. The kind of the policy never changes."""
        self._policy = policy
        self.live_replicas.use_limits(limits, policy.replicas_min)
        if self.is_serving and not self.is_over:
            self._commit(now)

    def on_live_replicas(self, epoch: Epoch, version: int, members: Mapping[SpuId, str], now: float) -> None:
        """Takes over the live replicas that the SC has stored."""
        if epoch > self.epoch:
            self._on_newer_epoch(epoch)
        elif epoch == self.epoch and not self.is_over:
            self.live_replicas.on_stored(version, members)
            self._commit(now)

    def on_fenced(self, fenced: Fenced) -> None:
        """Ends this leadership if a newer epoch exists."""
        if fenced.promised > self.epoch:
            self._on_newer_epoch(fenced.promised)

    def on_recovery_failed(self, spu: SpuId, now: float) -> None:
        """Recovers again without the response of a store that is lost before it has sent all its entries.

        Part of the requested changes may have been carried out. They are part of this log now. What is recovered next
        continues behind them, because no other store has anything of this epoch.
        """
        self.is_serving = False
        self._sealing.forget(spu)
        self._matched.clear()
        self._use_own_high_watermark(self._known_high_watermark.epoch)
        self._seal_own_store(self._sealing.replies[self._spu].in_doubt)
        for follower in self._followers.values():
            follower.reset(now)
        self._recover_if_sealed(now)

    def on_stopping(self, now: float) -> None:
        """Appends nothing more, and announces each high watermark at once, so that this leader becomes settled soon."""
        self.is_stopping = True
        self._announce_at = now
        self._commit(now)

    def on_deadline(self, now: float) -> None:
        """Sends again, announces, and removes silent followers, where the time has come."""
        if self.is_over:
            return
        self._commit(now)
        for spu, follower in self._followers.items():
            if now >= follower.resend_at:
                self._resend(spu, follower, now)

    def take_ready(self) -> Ready:
        """Returns the effects to carry out, and forgets them."""
        ready, self._ready = self._ready, Ready()
        return ready

    # sealing and recovery

    def _use_own_high_watermark(self, committed_in: Epoch) -> None:
        self._high_watermark.advance(high_watermark_at_start(self._log, self.high_watermark), committed_in)
        self._recovers_from = self.high_watermark

    def _seal_own_store(self, in_doubt: bool) -> None:
        high_watermark, log = self.high_watermark, self._log
        entries = tuple(log.entries(high_watermark, log.log_end)) if self._policy.reads_others else ()
        log_end, log_start, committed_in = log.log_end, log.log_start, self._high_watermark.epoch
        self._sealing.add(
            SealReply(self.epoch, self._spu, "", high_watermark, log_end, in_doubt, entries, log_start, committed_in)
        )

    def _seal(self, spu: SpuId, follower: FollowerProgress, now: float) -> None:
        follower.resend_at = now + self._limits.resend_seconds
        log = self._log
        entries_from = self._recovers_from if self._policy.reads_others and not self.is_serving else None
        if self._was_unclean:
            self._send(spu, Seal(self.epoch, entries_from, log.log_start, log.log_end, tuple(log.epochs)))
        else:
            self._send(spu, Seal(self.epoch, entries_from))

    def _recover_if_sealed(self, now: float) -> None:
        """Makes the log hold everything that may have been acknowledged, once enough stores are sealed."""
        if not self._sealing.is_complete:
            return
        replies, persist = self._sealing.replies, self._ready.persist
        if self._policy.reads_others:
            self.recovered_end = self._merge_logs()
        else:
            self.recovered_end = self._keep_own_log()
        if self.syncs_before_acknowledging:
            persist.append(Sync())
        self._synced_end = self.recovered_end if self.syncs_before_acknowledging else 0
        if replies[self._spu].in_doubt:
            persist.append(EndDoubt())
        self.is_serving = True
        for spu, follower in self._followers.items():
            if spu in replies:
                self._start_replicating(spu, follower, now)

    def _keep_own_log(self) -> int:
        """Stamps the own log and appends the bridge; returns the new end.

        Under this policy the own log has everything that may have been acknowledged, and no gap behind its high
        watermark. So no other store needs to be asked.
        """
        start, end = self._recovers_from, self._log.log_end
        if start >= end:
            return start
        self._ready.persist += [Restamp(start, end, self.epoch), AppendEntries((bridge_entry(end, self.epoch),))]
        return end + 1

    def _merge_logs(self) -> int:
        """Makes one log of what the sealed stores hold; returns its end."""
        log, replies, persist = self._log, self._sealing.replies, self._ready.persist
        start = self._recovers_from
        lowest = min((reply.entries[0].base for reply in replies.values() if reply.entries), default=start)
        own = replies[self._spu]
        others = [reply for spu, reply in replies.items() if spu != self._spu]
        recovered = recovered_log(list(log.entries(lowest, start)), start, [own, *others], self.epoch)
        own_entries = [entry for entry in own.entries if entry.end > recovered.start]
        begin_at = recovered.start if recovered.start > start else None
        for change in changes_to_match(
            own_entries, own.log_end, recovered.entries, epoch=self.epoch, begin_at=begin_at
        ):
            if isinstance(change, AppendEntries):
                persist.extend(self._append_recovered(change.entries, own_entries))
            else:
                persist.append(change)
        if recovered.log_start > log.log_start:
            persist.append(AdvanceLogStart(recovered.log_start))
        self._learn_high_watermark(recovered.high_watermark, recovered.high_watermark_epoch)
        self._ready.takes_long = recovered.end - recovered.start > self._limits.recovered_entries_max
        return recovered.end

    def _append_recovered(self, entries: Sequence[Entry], own: Sequence[Entry]) -> Iterator[Persist]:
        """Yields the appends of recovery, in portions, because there may be a lot, and other stores have the bytes. A
        portion that is in the log need not be fetched again if recovery is interrupted.

        All of it is appended at once if the own log has, or may have, parts of it behind the truncation point. They may
        be acknowledged, and must not be missing while other stores are asked.
        """
        limits, held = self._limits, ((each, entry_at(entries, each.base)) for each in own)
        if any(other is not None and (each.is_same_as(other) or each.may_equal(other)) for each, other in held):
            parts = iter([tuple(entries)])
        else:
            parts = portions(entries, limits.recovered_bytes_max, limits.recovered_entries_max)
        for part in parts:
            if part != entries[-1:]:  # more than the bridge
                yield ExpectStamped(end_of(part, 0))
            yield AppendEntries(part)

    # replication

    def _start_replicating(self, spu: SpuId, follower: FollowerProgress, now: float) -> None:
        """Starts sending from the follower's high watermark: below it, its log is the committed one, and so is this
        one."""
        follower.on_sealed(min(follower.high_watermark, self.recovered_end), now)
        assert follower.matched_end is not None
        self._matched[spu] = follower.matched_end

    def _send_appends(self, spu: SpuId, follower: FollowerProgress, log_end: int, now: float) -> bool:
        """Sends entries as far as the window allows; returns whether anything was sent."""
        if follower.matched_end is None:
            return False
        has_sent = False
        while follower.sent_end < log_end and len(follower.in_flight) < self._limits.appends_in_flight_max:
            if not follower.has_replied and self._is_sent_enough(follower):
                break
            append = self._appends.append_from(
                follower.sent_end, log_end, self._high_watermark, self.live_replicas.counting
            )
            end = append.entries[-1].end if append.entries else append.base
            if end <= follower.sent_end:
                self._ready.suspect_from = end  # the log continues here, but cannot be read
                break
            self._send_append(spu, follower, append, end, now)
            has_sent = True
        return has_sent

    def _is_sent_enough(self, follower: FollowerProgress) -> bool:
        lacks_committed = follower.sent_end < self._high_watermark.value
        return lacks_committed and len(follower.in_flight) >= self._limits.first_appends_max

    def _resend(self, spu: SpuId, follower: FollowerProgress, now: float) -> None:
        """Sends something again, because the follower did not respond; its reply shows what was lost."""
        follower.resend_at = now + self._limits.resend_seconds
        if follower.matched_end is None:
            self._seal(spu, follower, now)
            return
        follower.resent_from = None
        if not self._send_appends(spu, follower, self._log.log_end, now):
            self._send_sign_of_life(spu, follower, now)

    def _send_sign_of_life(self, spu: SpuId, follower: FollowerProgress, now: float) -> None:
        live = self.live_replicas.counting
        append = self._appends.sign_of_life(follower.sent_end, self._high_watermark, live)
        self._send_append(spu, follower, append, follower.sent_end, now)

    def _send_append(self, spu: SpuId, follower: FollowerProgress, append: Append, end: int, now: float) -> None:
        follower.on_sent(append, end)
        if follower.resend_at == math.inf:
            follower.resend_at = now + self._limits.resend_seconds
        self._send(spu, append)

    # commitment

    def _commit(self, now: float) -> None:
        """Advances the high watermark and proposes changes of the live replica set."""
        if not self.is_serving or self.is_over or self._ready.persist:
            return
        log_end = self._log.log_end
        matched, live_replicas = self._matched, self.live_replicas
        matched[self._spu] = min(log_end, self._synced_end) if self.syncs_before_acknowledging else log_end
        committed = (
            self._policy.committed_end(matched, live_replicas.counting) if live_replicas.has_enough_stored else 0
        )
        if self._policy.takes_over and not self.has_taken_over:
            self.has_taken_over = self._copy_set_has_all(committed)
        if self._advance_high_watermark(committed):
            if self._pending_log_start:
                self._take_over_log_start()
            announce_at = now if self.is_stopping else now + self._limits.high_watermark_delay_seconds
            if announce_at < self._announce_at:
                self._announce_at = announce_at
        proposal = live_replicas.propose(
            self._followers,
            log_end=log_end,
            high_watermark=self._high_watermark.value,
            required_end=self.recovered_end,
            log_start=self._log.log_start,
            has_taken_over=self.has_taken_over,
            now=now,
        )
        if proposal is not None:
            self._ready.propose = proposal
        if now >= self._announce_at:
            self._announce(now)

    def _learn_high_watermark(self, end: int, epoch: Epoch) -> None:
        self._known_high_watermark.advance(end, NO_EPOCH if self._was_unclean else epoch)

    def _advance_high_watermark(self, committed: int) -> bool:
        """Raises the high watermark; returns whether it rose.

        In this epoch nothing new is committed before everything that the epoch began with is committed. So if something
        was committed in an epoch, a store that has matched nothing in that epoch is not needed for it.
        """
        if committed >= self.recovered_end:
            return self._high_watermark.advance(committed, self.epoch)
        known = self._known_high_watermark
        return self._high_watermark.advance(min(known.value, self.recovered_end), known.epoch)

    def _copy_set_has_all(self, matched_end: int) -> bool:
        """Returns whether the last copy set has everything. Other stores may know more to be committed than this set
        has."""
        log_start = max(self._log.log_start, self._pending_log_start)
        return matched_end >= self.recovered_end and self.deleted_end >= log_start

    def _take_over_log_start(self) -> None:
        """Deletes what another store has deleted, once everything before that log start is committed here.

        It had been committed when the other store deleted it. So it is committed here, too, at the latest when
        everything is that this leader found.
        """
        if self._pending_log_start <= self._log.log_start:
            self._pending_log_start = 0
        elif self._pending_log_start <= self._high_watermark.value:
            self._ready.delete_to = self._pending_log_start
            self._pending_log_start = 0

    def _announce(self, now: float) -> None:
        """Announces the high watermark and the log start to followers that have not learned them with entries.

        While entries are being appended, the next ones will carry them. A separate message would delay every producer.
        """
        announce_at = self._appended_at + self._limits.high_watermark_delay_seconds
        if now < announce_at and not self.is_stopping:
            self._announce_at = announce_at
            return
        self._announce_at = math.inf
        log_start, log_end, high_watermark = self._log.log_start, self._log.log_end, self._high_watermark.value
        for spu, follower in self._followers.items():
            has_all = follower.matched_end is not None and follower.sent_end >= log_end
            if has_all and (follower.sent_high_watermark < high_watermark or follower.sent_log_start < log_start):
                self._send_sign_of_life(spu, follower, now)

    # other epochs and other processes

    def _current_follower(self, epoch: Epoch, spu: SpuId, incarnation: str, now: float) -> FollowerProgress | None:
        """Returns the follower that sent this message; None if it has to be sealed first.

        If the message comes from another process of the follower than the known one, it counts as a Hello: the last
        process to speak is the one that lives, and a Hello may have been late.
        """
        follower = self._followers.get(spu)
        if follower is not None and follower.incarnation == incarnation and epoch == self.epoch and not self.is_over:
            return follower
        if self._is_of_this_epoch(epoch, spu):
            self.on_hello(Hello(epoch, spu, incarnation), now)
        return None

    def _is_of_this_epoch(self, epoch: Epoch, spu: SpuId) -> bool:
        if epoch > self.epoch:
            self._on_newer_epoch(epoch)
        elif epoch < self.epoch:
            self._send(spu, Fenced(self.epoch))
        return epoch == self.epoch and not self.is_over

    def _remove_failed_follower(self, spu: SpuId, now: float) -> None:
        """Removes a follower that says that its disk has failed. There is no use in waiting until it has been silent
        for too long."""
        self._followers.pop(spu, None)
        self._matched.pop(spu, None)
        self.live_replicas.on_offline(spu)
        self._commit(now)

    def _on_newer_epoch(self, newer: Epoch) -> None:
        if not self.is_over:
            self.is_over = True
            self._ready.fenced_by = newer

    def _send(self, spu: SpuId, message: Message) -> None:
        self._ready.send.append((spu, message))
