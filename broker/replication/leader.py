"""A leader replica, for one epoch: seals its copy set, recovers what the last leader left, replicates, commits.

Whatever it acknowledges, any later leader finds: on every live replica, or on enough stores that whoever seals meets
one. It never cuts its log once it serves, so that its epoch and an offset name one content for ever.

A follower that has everything, and knows that it is committed, is left in peace: thousands of partitions at rest cost
nothing. Whether it is still there is the connection's business.
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
from .rewriting import rewritten
from .sealing import Promise, Sealing


class LeaderLimits(Struct, frozen=True):
    append_bytes_max: int = 1 << 20
    appends_in_flight_max: int = 8
    """For each follower; with the size of one, the window."""
    first_appends_max: int = 1
    """The same, for one that has answered none yet and lacks what is committed: perhaps so much that it has it from
    elsewhere."""
    resend_seconds: float = 0.5
    """A follower that lacks something and has not answered for so long is sent something again."""
    high_watermark_delay_seconds: float = 0.01
    """So long a new high watermark waits for entries that take it along."""
    recovered_bytes_max: int = 4 << 20
    recovered_entries_max: int = 1000
    """So much of what recovery appends is at hand at once."""


class Leader:
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
        self._begin_with_own_store(promise.epoch)
        if was_unclean:
            high_watermark.epoch = NO_EPOCH  # its leader, and later ones, may lack what was committed then
        self._policy = policy
        self._limits = limits
        self._links: dict[SpuId, FollowerProgress] = {}
        self._matched: dict[SpuId, int] = {}
        """Matched ends, the own one among them."""
        self._offline: set[SpuId] = set()
        self._sealing = Sealing(policy)
        self._known_high_watermark = HighWatermark(high_watermark.value, high_watermark.epoch)
        """The largest that any store knows."""
        self._owed_log_start = 0
        """Another store has deleted all before it, and here not all of that is known to be committed; 0: none has."""
        self._tell_at = math.inf
        """When followers are told of the high watermark that is new, unless entries have taken it along."""
        self._appended_at = -math.inf
        self._synced_end = 0
        self._appends = AppendBuilder(epoch, log, limits.append_bytes_max)
        self._was_unclean = was_unclean
        """A leader of this partition was once elected that may have lacked something: this one, or an earlier one."""
        self._ready = Ready()
        self.epoch = epoch
        self.live_replicas = live_replicas
        self.syncs_before_acknowledging = syncs_before_acknowledging
        """The own log counts as far as it is on the disk: `on_synced` says how far that is."""
        self.is_serving = False
        """Accepts batches; before that, nobody knows where the log ends."""
        self.is_stopping = False
        self.is_over = False
        self.recovered_end = 0
        """Up to here goes what earlier epochs left, with the bridge: one segment, sealed when this is committed."""
        self.has_taken_over = False
        """From other stores: enough of those that commit now have all that earlier epochs left."""
        if promise.renew(epoch):
            self._ready.persist.append(StorePromise(epoch))
        self._seal_own_store(in_doubt)
        self._recover_if_sealed(now)

    # what is

    @property
    def high_watermark(self) -> int:
        return self._high_watermark.value

    @property
    def high_watermark_epoch(self) -> Epoch:
        return self._high_watermark.epoch

    @property
    def has_sealed_earlier_segments(self) -> bool:
        return self.is_serving and self.high_watermark >= self.recovered_end

    @property
    def deleted_end(self) -> int:
        """Whoever leads next knows that the records before it are deleted."""
        log_starts = {spu: link.log_start for spu, link in self._links.items()}
        log_starts[self._spu] = self._log.log_start
        return self._policy.committed_end(log_starts, self.live_replicas.counting)

    @property
    def is_settled(self) -> bool:
        """All is committed and every live replica knows it: the next leader will have nothing to recover."""
        log_end = self._log.log_end
        followers = [self._links.get(spu) for spu in self.live_replicas.counting if spu != self._spu]
        return self.high_watermark == log_end and all(
            link is not None and link.high_watermark == log_end for link in followers
        )

    @property
    def deadline(self) -> float:
        if self.is_over:
            return math.inf
        deadline = math.inf
        if self.is_serving:
            deadline = self.live_replicas.deadline
            if self._tell_at < deadline:
                deadline = self._tell_at
        for link in self._links.values():
            if link.resend_at < deadline:
                deadline = link.resend_at
        return deadline

    @property
    def can_commit(self) -> bool:
        """Whether those who speak to this leader are enough to commit what is appended now, if all of them take it."""
        speaking = dict.fromkeys([self._spu, *self._links], 1)
        return self._policy.committed_end(speaking, self.live_replicas.counting) > 0

    def follower_matched_end(self, spu: SpuId) -> int | None:
        """Up to where it is known to have this log."""
        return self._matched.get(spu)

    def follower_last_matched_end(self, spu: SpuId) -> int | None:
        """Up to where it has said that it has this log, in this epoch, though its link may have been lost since."""
        end = self._matched.get(spu)
        return self.live_replicas.last_ends.get(spu) if end is None else end

    def holders_of(self, entry: Entry) -> list[SpuId]:
        """The followers that have this entry, as they said when they were sealed."""
        held = {spu: entry_at(reply.entries, entry.base) for spu, reply in self._sealing.replies.items()}
        return [spu for spu, each in held.items() if spu != self._spu and each is not None and entry.is_same_as(each)]

    # what happened

    def on_hello(self, hello: Hello, now: float) -> None:
        if not self._is_of_this_epoch(hello.epoch, hello.spu) or hello.spu not in self._copy_set:
            return
        if hello.has_failed:
            self._give_up(hello.spu, now)
            return
        self._offline.discard(hello.spu)
        link = self._links.get(hello.spu)
        if link is None or link.incarnation != hello.incarnation:
            link = self._links[hello.spu] = FollowerProgress(hello.incarnation)
            self._matched.pop(hello.spu, None)
            self.live_replicas.on_link_lost(hello.spu, now)
        self._seal(hello.spu, link, now)

    def on_seal_reply(self, reply: SealReply, now: float) -> None:
        link = self._speaking(reply.epoch, reply.spu, reply.incarnation, now)
        if link is None:
            return
        link.high_watermark = reply.high_watermark
        if reply.log_start <= reply.high_watermark:
            link.log_start = reply.log_start
        if not self.is_serving:
            link.resend_at = math.inf
            self._sealing.add(reply)
            self._recover_if_sealed(now)
        else:
            self._begin(reply.spu, link, now)
            self._learn_high_watermark(reply.high_watermark, reply.high_watermark_epoch)
            self._owed_log_start = max(self._owed_log_start, link.log_start)
            self._take_over_log_start()
            self._commit(now)
            self._speak_up(reply.spu, link, now)

    def on_append_reply(self, reply: AppendReply, now: float) -> None:
        spu = reply.spu
        link = self._speaking(reply.epoch, spu, reply.incarnation, now)
        if link is None or link.matched_end is None:
            return
        log_start_before = link.log_start
        if link.on_reply(reply):
            self._ready.suspect_from = link.matched_end
        self._matched[spu] = link.matched_end
        if reply.log_start > log_start_before and not self._was_unclean:
            # It led before, and was still deleting when it was sealed.
            self._owed_log_start = max(self._owed_log_start, min(reply.log_start, reply.high_watermark))
            self._take_over_log_start()
        log_end = self._log.log_end
        caught_up_at = link.caught_up_at(log_end, now)
        if caught_up_at is not None:
            self.live_replicas.on_caught_up(spu, caught_up_at)
        link.resend_at = now + self._limits.resend_seconds
        if link.sent_end < log_end:
            self._push(spu, link, log_end, now)
        self._commit(now)
        if (
            reply.matched_end == reply.log_end == log_end
            and reply.high_watermark >= self._high_watermark.value
            and reply.log_start >= self._log.log_start
        ):
            link.resend_at = math.inf

    def on_appended(self, now: float) -> None:
        """The log has grown, by a producer's batches, or by its recovery a moment ago."""
        assert self.is_serving and not self.is_over
        self._sealing.replies.clear()  # what was recovered is here, and their descriptions may be many
        self._appended_at = now
        log_end = self._log.log_end
        self.live_replicas.on_appended(log_end, self._matched, now)
        for spu, link in self._links.items():
            self._push(spu, link, log_end, now)
        self._commit(now)

    def on_synced(self, end: int, now: float) -> None:
        """The own log is on the disk up to there."""
        if end > self._synced_end:
            self._synced_end = end
            self._commit(now)

    def on_deleted(self, now: float) -> None:
        """The log starts later than before."""
        self._appends.forget()
        if self.is_serving and not self.is_over:
            self._tell_at = min(self._tell_at, now + self._limits.high_watermark_delay_seconds)

    def on_compacted(self) -> None:
        """Entries have gone, or have lost something."""
        self._appends.forget()

    def on_link_lost(self, spu: SpuId, now: float) -> None:
        """What was sent may be lost, and the follower will say Hello again, if it is still there."""
        self._links.pop(spu, None)
        matched_end = self._matched.pop(spu, None)
        if spu in self._offline:
            self.live_replicas.on_offline(spu)
        else:
            self.live_replicas.on_link_lost(spu, now, matched_end)
        self._commit(now)

    def on_offline(self, spu: SpuId, now: float) -> None:
        """The Streaming Controller has lost that SPU. As long as it speaks to this one, it lives."""
        self._offline.add(spu)
        if spu not in self._links:
            self.live_replicas.on_offline(spu)
            self._commit(now)

    def on_online(self, spu: SpuId) -> None:
        """And has it again: from now on a broken link says no more than that it broke."""
        self._offline.discard(spu)

    def _give_up(self, spu: SpuId, now: float) -> None:
        """It says itself that it does not follow any more: there is no use in waiting until it was silent."""
        self._links.pop(spu, None)
        self._matched.pop(spu, None)
        self.live_replicas.on_offline(spu)
        self._commit(now)

    def on_copy_set(self, copy_set: Collection[SpuId], now: float) -> None:
        """Other replicas than before: those that are new say Hello, and those that are gone are not heard any more."""
        self._copy_set = frozenset(copy_set)
        for spu in self._links.keys() - self._copy_set:
            self.on_link_lost(spu, now)

    def use_policy(self, policy: ReplicationPolicy, limits: LagLimits, now: float) -> None:
        """Another minimum of live replicas, or other limits; what kind of policy it is never changes."""
        self._policy = policy
        self.live_replicas.use(limits, policy.replicas_min)
        if self.is_serving and not self.is_over:
            self._commit(now)

    def on_live_replicas(self, epoch: Epoch, version: int, members: Mapping[SpuId, str], now: float) -> None:
        """What the Streaming Controller has stored."""
        if epoch > self.epoch:
            self._end(epoch)
        elif epoch == self.epoch and not self.is_over:
            self.live_replicas.on_stored(version, members)
            self._commit(now)

    def on_fenced(self, fenced: Fenced) -> None:
        if fenced.promised > self.epoch:
            self._end(fenced.promised)

    def on_recovery_failed(self, spu: SpuId, now: float) -> None:
        """That store has entries that this one lacks, and is gone: its answer does not count any more.

        What was to be persisted before them may have been. Then it is this store's, and whatever is recovered next goes
        on behind it, for nobody else has anything of this epoch.
        """
        self.is_serving = False
        self._sealing.forget(spu)
        self._matched.clear()
        self._begin_with_own_store(self._known_high_watermark.epoch)
        self._seal_own_store(self._sealing.replies[self._spu].in_doubt)
        for link in self._links.values():
            link.begin_again(now)
        self._recover_if_sealed(now)

    def on_stopping(self, now: float) -> None:
        """Nothing more is appended, and followers hear at once what is committed: soon this `is_settled`."""
        self.is_stopping = True
        self._tell_at = now
        self._commit(now)

    def on_deadline(self, now: float) -> None:
        if self.is_over:
            return
        self._commit(now)
        for spu, link in self._links.items():
            if now >= link.resend_at:
                self._speak_up(spu, link, now)

    def take_ready(self) -> Ready:
        ready, self._ready = self._ready, Ready()
        return ready

    # sealing and recovering

    def _begin_with_own_store(self, committed_in: Epoch) -> None:
        self._high_watermark.advance(high_watermark_at_start(self._log, self.high_watermark), committed_in)
        self._recovers_from = self.high_watermark

    def _seal_own_store(self, in_doubt: bool) -> None:
        high_watermark, log = self.high_watermark, self._log
        entries = tuple(log.entries(high_watermark, log.log_end)) if self._policy.reads_others else ()
        log_end, log_start, committed_in = log.log_end, log.log_start, self._high_watermark.epoch
        self._sealing.add(
            SealReply(self.epoch, self._spu, "", high_watermark, log_end, in_doubt, entries, log_start, committed_in)
        )

    def _seal(self, spu: SpuId, link: FollowerProgress, now: float) -> None:
        link.resend_at = now + self._limits.resend_seconds
        log = self._log
        entries_from = self._recovers_from if self._policy.reads_others and not self.is_serving else None
        if self._was_unclean:
            self._send(spu, Seal(self.epoch, entries_from, log.log_start, log.log_end, tuple(log.epochs)))
        else:
            self._send(spu, Seal(self.epoch, entries_from))

    def _recover_if_sealed(self, now: float) -> None:
        """From here on all is known that may have been acknowledged: makes the own log hold it."""
        if not self._sealing.is_complete:
            return
        replies, persist = self._sealing.replies, self._ready.persist
        if self._policy.reads_others:
            self.recovered_end = self._make_one_log()
        else:
            self.recovered_end = self._keep_own_log()
        if self.syncs_before_acknowledging:
            persist.append(Sync())
        self._synced_end = self.recovered_end if self.syncs_before_acknowledging else 0
        if replies[self._spu].in_doubt:
            persist.append(EndDoubt())
        self.is_serving = True
        for spu, link in self._links.items():
            if spu in replies:
                self._begin(spu, link, now)

    def _keep_own_log(self) -> int:
        """Which has all that may have been acknowledged, and no gap behind its high watermark: so nobody need know what
        is in it."""
        start, end = self._recovers_from, self._log.log_end
        if start >= end:
            return start
        self._ready.persist += [Restamp(start, end, self.epoch), AppendEntries((bridge_entry(end, self.epoch),))]
        return end + 1

    def _make_one_log(self) -> int:
        """Of what the stores hold that have answered. Returns its end."""
        log, replies, persist = self._log, self._sealing.replies, self._ready.persist
        start = self._recovers_from
        lowest = min((reply.entries[0].base for reply in replies.values() if reply.entries), default=start)
        own = replies[self._spu]
        others = [reply for spu, reply in replies.items() if spu != self._spu]
        recovered = recovered_log(list(log.entries(lowest, start)), start, [own, *others], self.epoch)
        own_entries = [entry for entry in own.entries if entry.end > recovered.start]
        begin_at = recovered.start if recovered.start > start else None
        for change in rewritten(own_entries, own.log_end, recovered.entries, epoch=self.epoch, begin_at=begin_at):
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
        """In portions, for it may be a lot, and others have the bytes: whatever comes between, those that are in the
        log need not be had again. But all at once where the own log has, or may have, some of it behind the cut: that
        may be acknowledged, and must not wait for others to be in the log again."""
        limits, held = self._limits, ((each, entry_at(entries, each.base)) for each in own)
        if any(other is not None and (each.is_same_as(other) or each.may_equal(other)) for each, other in held):
            parts = iter([tuple(entries)])
        else:
            parts = portions(entries, limits.recovered_bytes_max, limits.recovered_entries_max)
        for part in parts:
            if part != entries[-1:]:  # more than the bridge
                yield ExpectStamped(end_of(part, 0))
            yield AppendEntries(part)

    # replicating

    def _begin(self, spu: SpuId, link: FollowerProgress, now: float) -> None:
        """Below its high watermark a store has the committed log, which is this one."""
        link.begin(min(link.high_watermark, self.recovered_end), now)
        assert link.matched_end is not None
        self._matched[spu] = link.matched_end

    def _push(self, spu: SpuId, link: FollowerProgress, log_end: int, now: float) -> bool:
        """Whether there was anything to send, and room."""
        if link.matched_end is None:
            return False
        has_sent = False
        while link.sent_end < log_end and len(link.in_flight) < self._limits.appends_in_flight_max:
            if not link.has_answered and self._is_sent_enough(link):
                break
            append = self._appends.next_from(link.sent_end, log_end, self._high_watermark, self.live_replicas.counting)
            end = append.entries[-1].end if append.entries else append.base
            if end <= link.sent_end:
                self._ready.suspect_from = end  # the log goes on here, and nobody can say with what
                break
            self._send_append(spu, link, append, end, now)
            has_sent = True
        return has_sent

    def _is_sent_enough(self, link: FollowerProgress) -> bool:
        lacks_committed = link.sent_end < self._high_watermark.value
        return lacks_committed and len(link.in_flight) >= self._limits.first_appends_max

    def _speak_up(self, spu: SpuId, link: FollowerProgress, now: float) -> None:
        """Nothing was heard for a while: what was sent may be lost, and the answer to this will tell."""
        link.resend_at = now + self._limits.resend_seconds
        if link.matched_end is None:
            self._seal(spu, link, now)
            return
        link.sent_again_from = None
        if not self._push(spu, link, self._log.log_end, now):
            self._send_sign_of_life(spu, link, now)

    def _send_sign_of_life(self, spu: SpuId, link: FollowerProgress, now: float) -> None:
        live = self.live_replicas.counting
        append = self._appends.nothing_from(link.sent_end, self._high_watermark, live)
        self._send_append(spu, link, append, link.sent_end, now)

    def _send_append(self, spu: SpuId, link: FollowerProgress, append: Append, end: int, now: float) -> None:
        link.on_sent(append, end)
        if link.resend_at == math.inf:
            link.resend_at = now + self._limits.resend_seconds
        self._send(spu, append)

    # committing

    def _commit(self, now: float) -> None:
        """Moves the high watermark, and the live set."""
        if not self.is_serving or self.is_over or self._ready.persist:
            return
        log_end = self._log.log_end
        matched, live_replicas = self._matched, self.live_replicas
        matched[self._spu] = min(log_end, self._synced_end) if self.syncs_before_acknowledging else log_end
        committed = self._policy.committed_end(matched, live_replicas.counting) if live_replicas.are_enough else 0
        if self._policy.takes_over and not self.has_taken_over:
            self.has_taken_over = self._has_copy_set_all(committed)
        if self._advance_high_watermark(committed):
            if self._owed_log_start:
                self._take_over_log_start()
            tell_at = now if self.is_stopping else now + self._limits.high_watermark_delay_seconds
            if tell_at < self._tell_at:
                self._tell_at = tell_at
        proposal = live_replicas.propose(
            self._links,
            log_end=log_end,
            high_watermark=self._high_watermark.value,
            entry_end=self.recovered_end,
            log_start=self._log.log_start,
            has_taken_over=self.has_taken_over,
            now=now,
        )
        if proposal is not None:
            self._ready.propose = proposal
        if now >= self._tell_at:
            self._tell(now)

    def _learn_high_watermark(self, end: int, epoch: Epoch) -> None:
        self._known_high_watermark.advance(end, NO_EPOCH if self._was_unclean else epoch)

    def _advance_high_watermark(self, committed: int) -> bool:
        """Whether it rose. Nothing is committed in this epoch before all is that it began with: so whoever has not
        matched anything of an epoch in which something was committed, has no copy that is still needed."""
        if committed >= self.recovered_end:
            return self._high_watermark.advance(committed, self.epoch)
        known = self._known_high_watermark
        return self._high_watermark.advance(min(known.value, self.recovered_end), known.epoch)

    def _has_copy_set_all(self, matched_end: int) -> bool:
        """That other stores know something to be committed does not say that those have it who commit now."""
        log_start = max(self._log.log_start, self._owed_log_start)
        return matched_end >= self.recovered_end and self.deleted_end >= log_start

    def _take_over_log_start(self) -> None:
        """What a follower has deleted had to be committed, and will be here as well, at the latest by the time that all
        is which this leader found."""
        if self._owed_log_start <= self._log.log_start:
            self._owed_log_start = 0
        elif self._owed_log_start <= self._high_watermark.value:
            self._ready.delete_to = self._owed_log_start
            self._owed_log_start = 0

    def _tell(self, now: float) -> None:
        """The high watermark and the log start, to whom nothing else has told them.

        While entries come, the next ones will: a message beside them would be one that every producer waits for.
        """
        tell_at = self._appended_at + self._limits.high_watermark_delay_seconds
        if now < tell_at and not self.is_stopping:
            self._tell_at = tell_at
            return
        self._tell_at = math.inf
        log_start, log_end, high_watermark = self._log.log_start, self._log.log_end, self._high_watermark.value
        for spu, link in self._links.items():
            has_all = link.matched_end is not None and link.sent_end >= log_end
            if has_all and (link.told_high_watermark < high_watermark or link.told_log_start < log_start):
                self._send_sign_of_life(spu, link, now)

    # ends, and what is not for this leader

    def _speaking(self, epoch: Epoch, spu: SpuId, incarnation: str, now: float) -> FollowerProgress | None:
        """The follower that says this. Another store than the one that is known has to be sealed first.

        Whichever it is, the old or the new one: a Hello may have been late, and the one who lives speaks last.
        """
        link = self._links.get(spu)
        if link is not None and link.incarnation == incarnation and epoch == self.epoch and not self.is_over:
            return link
        if self._is_of_this_epoch(epoch, spu):
            self.on_hello(Hello(epoch, spu, incarnation), now)
        return None

    def _is_of_this_epoch(self, epoch: Epoch, spu: SpuId) -> bool:
        if epoch > self.epoch:
            self._end(epoch)
        elif epoch < self.epoch:
            self._send(spu, Fenced(self.epoch))
        return epoch == self.epoch and not self.is_over

    def _end(self, newer: Epoch) -> None:
        if not self.is_over:
            self.is_over = True
            self._ready.fenced_by = newer

    def _send(self, spu: SpuId, message: Message) -> None:
        self._ready.send.append((spu, message))
