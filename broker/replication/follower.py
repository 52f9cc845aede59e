"""A follower replica, for one leader: makes its log the leader's, and says how far it is.

Its log ends where it ends, and nobody knows how much of that was acknowledged: not even the high watermark says, which
may be behind. So nothing is cut but what a leader of the newest epoch shows to be different.
"""

import math

from msgspec.structs import replace

from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

from .copying import Copying, CopyLimits, CopyResponse, lacking_bytes, rotated
from .entries import EntryLog, compacted_end, end_of
from .epoch_starts import common_end, epochs_from
from .high_watermark import HighWatermark
from .messages import Append, AppendReply, Fenced, Hello, Message, Seal, SealReply
from .policy import ReplicationPolicy
from .ready import AdvanceLogStart, AppendEntries, EndDoubt, ExpectStamped, Ready, StorePromise, Sync, Truncate
from .rewriting import rewritten
from .sealing import Promise


class Follower:
    def __init__(
        self,
        spu: SpuId,
        incarnation: str,
        leader: SpuId,
        epoch: Epoch,
        *,
        log: EntryLog,
        promise: Promise,
        high_watermark: HighWatermark,
        in_doubt: bool,
        policy: ReplicationPolicy,
        syncs_before_acknowledging: bool = False,
        has_failed: bool = False,
        hello_again_seconds: float = 1.0,
        copy_limits: CopyLimits | None = None,
        turn: int = 0,
    ) -> None:
        """`copy_limits`: None if nothing is to be copied from others than the leader; `turn`: which of them is asked
        first."""
        self._spu = spu
        self._incarnation = incarnation
        self._log = log
        self._promise = promise
        self._high_watermark = high_watermark
        self._policy = policy
        self._policy_epoch = epoch
        """With the next one other stores may commit: the spec will tell."""
        self._hello_again_seconds = hello_again_seconds
        self.is_compared = False
        """With the leader of this epoch, by the epochs in both logs."""
        self._synced_end = 0
        """Up to here what was matched in this epoch is on the disk, as far as is known."""
        self._log_start = log.log_start
        """As it will be when all is carried out."""
        self._expects_stamped_to = 0
        self._copy_limits = copy_limits
        self._turn = turn
        self._copying: Copying | None = None
        """The leader is not answered meanwhile: it stops when so much is on its way as it may be."""
        self._given_up: frozenset[SpuId] = frozenset()
        """Who is not asked for copies any more, as long as the leader counts on it: it may be well again after that."""
        self._had_by_later_leaders: tuple[Epoch, int] | None = None
        """Of which epoch on, and up to where: what is behind the matched end stays as it is until it is cut, and may be
        a lot."""
        self._ready = Ready()
        self.leader = leader
        self.epoch = epoch
        self.in_doubt = in_doubt
        self.has_failed = has_failed
        """Its disk: it says so to its leader, and nothing else any more."""
        self.syncs_before_acknowledging = syncs_before_acknowledging
        self.matched_end = high_watermark.value
        """Up to where this log is known to be the one of this epoch's leader."""
        self.deadline = math.inf
        """When to say Hello again: there is a link, and the leader has not answered on it."""
        if not has_failed:
            self._enter(epoch)

    # what happened

    def on_linked(self, now: float) -> None:
        """There is a connection to the leader's SPU, the first one or another."""
        if self.has_failed:
            self._say_failed()
            return
        self.deadline = now
        self.on_deadline(now)

    def on_link_lost(self) -> None:
        self.deadline = math.inf

    def on_deadline(self, now: float) -> None:
        if now >= self.deadline:
            self._send(Hello(self.epoch, self._spu, self._incarnation))
            self.deadline = now + self._hello_again_seconds

    def on_failed(self) -> None:
        """The disk: what was asked for may not have been carried out."""
        self.has_failed = True
        self.deadline = math.inf
        self._copying = None
        self._ready = Ready()
        self._say_failed()

    def on_seal(self, seal: Seal) -> None:
        if not self._accepts(seal.epoch):
            return
        log, start = self._log, seal.entries_from
        if seal.log_end is not None and not self.is_compared:
            self._compare(seal, seal.log_end)
        high_watermark, log_end = min(self._high_watermark.value, self.matched_end), log.log_end
        entries = () if start is None else tuple(log.entries(min(start, high_watermark), log_end))
        self._send(
            SealReply(
                self.epoch,
                self._spu,
                self._incarnation,
                high_watermark,
                log_end,
                self.in_doubt,
                entries,
                log.log_start,
                self._high_watermark.epoch,
            )
        )

    def use_policy(self, policy: ReplicationPolicy, epoch: Epoch, copy_limits: CopyLimits | None = None) -> None:
        """As the spec of this epoch says; the leader may have been first."""
        self._policy, self._policy_epoch, self._copy_limits = policy, epoch, copy_limits
        if copy_limits is None:
            self.stop_copying("its topic is another than it was")

    def on_append(self, append: Append) -> None:
        if not self._accepts(append.epoch):
            return
        self.is_compared = True
        log_end = self._log.log_end
        self._take_for_committed(append, log_end)
        begins_anew = self.matched_end < append.base <= append.log_start
        missed = append.base > self.matched_end and not begins_anew
        self._log_start = self._log.log_start
        if missed:
            self._sync()  # what was taken for committed
        else:
            log_end = self._match(append, log_end, begins_anew)
            if append.stamped_end > self.matched_end:
                self._begin_copying(append, log_end)
        if self._copying is None:
            self._reply(log_end, missed=missed)
        else:
            self._copying.on_append(append)

    def on_copied(self, copied: CopyResponse) -> None:
        """What another follower was asked for, or that it does not have it."""
        copying = self._copying
        if copying is None or not copying.is_asked(copied.asked):
            return  # another epoch has begun, or this is another copy
        assert not self._ready.persist, "what was asked for before has not been carried out"
        log_end = self._log.log_end
        assert log_end == self.matched_end, "nothing is behind what was matched before a copy begins"
        entries = copying.take(copied, self.matched_end)
        self._log_start = self._log.log_start
        if entries:
            told = copying.told
            as_if_sent = replace(told, base=self.matched_end, entries=entries, stamped_end=0, epochs=())
            log_end = self._match(as_if_sent, log_end, begins_anew=False)
        self._ask_for_copies(log_end)

    def take_ready(self) -> Ready:
        ready, self._ready = self._ready, Ready()
        return ready

    def stop_copying(self, reason: str | None = None) -> None:
        """If there is a copy; the leader goes on with the answer to what it says next."""
        if self._copying is not None:
            self._ready.copy_end = self._copying.over(self.matched_end, reason)
            self._copying = None

    # what is copied from others than the leader

    def _is_worth_copying(self, append: Append) -> bool:
        """Not before the spec of this epoch has said whether a leader was ever elected uncleanly."""
        limits = self._copy_limits
        return (
            limits is not None
            and self._copying is None
            and self.epoch == self._policy_epoch
            and lacking_bytes(append, self.matched_end) >= limits.lacking_bytes_min
        )

    def _begin_copying(self, append: Append, log_end: int) -> None:
        if not self._is_worth_copying(append) or log_end != self.matched_end:
            return
        assert self._copy_limits is not None
        others = append.live_replicas - {self.leader, self._spu}
        self._given_up &= others
        holders = rotated(others - self._given_up, self._turn)
        if holders:
            end, bytes_max = self._expects_stamped_to, self._copy_limits.portion_bytes_max
            self._copying = Copying(append, end, holders, bytes_max)
            self._ask_for_copies(log_end)

    def _ask_for_copies(self, log_end: int) -> None:
        """The next portion; or the leader is told to go on."""
        copying = self._copying
        assert copying is not None
        self._ready.copy_request = copying.next_question(self.matched_end)
        self._given_up |= copying.given_up
        if self._ready.copy_request is None:
            self.stop_copying()
            self._reply(log_end, missed=False)

    # what becomes of the log

    def _compare(self, seal: Seal, log_end: int) -> None:
        """Below the high watermark it is the leader's log, unless one was elected that lacked something of it."""
        self.is_compared = True
        log = self._log
        agreed = common_end(log.epochs, log.log_end, seal.epochs, log_end)
        if agreed < log.log_start:
            agreed = 0  # what is deleted here is not what this leader has there, or more than it has deleted
        end = min(self._high_watermark.value, max(agreed, seal.log_start), log.log_end, log_end)
        self.matched_end = min((entry.base for entry in log.entries(end, end + 1)), default=end)

    def _take_for_committed(self, append: Append, log_end: int) -> None:
        """What is committed is in this log, as far as that is known without comparing.

        To compare would not do: where the leader's log is compacted and the epochs in both differ, they could not be
        told to be the same, and what was cut would be gone until the leader has sent it again.
        """
        end = append.high_watermark
        if self.matched_end >= end or self.matched_end >= log_end:
            return
        if not self._has_all_committed(append):
            end = min(end, self._end_of_what_later_leaders_had(append))
        if end > self.matched_end:
            self._high_watermark.advance(end, append.high_watermark_epoch)
            self.matched_end = end

    def _has_all_committed(self, append: Append) -> bool:
        """At the beginning of its log: what is committed only with this store."""
        if self.in_doubt or append.high_watermark > self._log.log_end:
            return False
        is_of_policy = self.epoch == self._policy_epoch or not self._policy.reads_others
        return is_of_policy and not self._policy.commits_without({self._spu}, append.live_replicas)

    def _end_of_what_later_leaders_had(self, append: Append) -> int:
        """The leaders of the epoch in which the leader's high watermark was committed, and of those after it, had all
        below it: and so has this log, up to the last entry that one of them has stamped. 0 if there is none.

        Within an epoch nothing else is needed than to match.
        """
        committed_in, log = append.high_watermark_epoch, self._log
        if committed_in == NO_EPOCH or committed_in == append.epoch:
            return 0
        if self._had_by_later_leaders is None or self._had_by_later_leaders[0] != committed_in:
            own = log.entries(self.matched_end, log.log_end)
            end = max((entry.end for entry in own if entry.epoch >= committed_in), default=0)
            self._had_by_later_leaders = committed_in, end
        return self._had_by_later_leaders[1]

    def _match(self, append: Append, log_end: int, begins_anew: bool) -> int:
        """Makes the log the leader's from the matched end on, as far as this goes. Returns where it ends then.

        `begins_anew`: the leader has deleted what this log lacks. What it may have behind that is kept.
        """
        persist = self._ready.persist
        if begins_anew:
            self.matched_end = append.base
        start = self.matched_end
        log_end = self._rewrite(append, log_end, begins_anew)
        if start < append.stamped_end and (not self._expects_stamped_to or self._is_worth_copying(append)):
            self._expect_stamped(append)
        if log_end > self.matched_end == append.log_end:
            log_end = self.matched_end
            persist.append(Truncate(log_end))
            self._high_watermark.fall_back(log_end)
            self._log_start = min(self._log_start, log_end)
        self._high_watermark.advance(min(append.high_watermark, self.matched_end), append.high_watermark_epoch)
        if append.log_start > self._log_start:
            self._take_over_log_start(append.log_start)
        self._sync()
        if self.in_doubt and self.matched_end >= append.log_end:
            persist.append(EndDoubt())
            self.in_doubt = False
        return log_end

    def _take_over_log_start(self, log_start: int) -> None:
        """As far as what is before it is known to be committed."""
        log_start = min(log_start, self._high_watermark.value)
        if log_start > self._log_start:
            self._ready.persist.append(AdvanceLogStart(log_start))
            self._log_start = log_start

    def _sync(self) -> None:
        """What is matched, where nothing else may be said."""
        if self.syncs_before_acknowledging and self._synced_end < self.matched_end:
            self._ready.persist.append(Sync())
            self._synced_end = self.matched_end

    def _expect_stamped(self, append: Append) -> None:
        """Once in an epoch, before the first entry that recovery has stamped and this log lacks; and before a copy, for
        batches elsewhere may be stamped where the leader's are not."""
        persist = self._ready.persist
        for index, effect in enumerate(persist):
            if isinstance(effect, AppendEntries):
                base = effect.entries[0].base
                if base < append.stamped_end:
                    persist.insert(index, ExpectStamped(append.stamped_end, epochs_from(append.epochs, base)))
                    self._expects_stamped_to = append.stamped_end
                return

    def _rewrite(self, append: Append, log_end: int, begins_anew: bool) -> int:
        persist, log, start = self._ready.persist, self._log, self.matched_end
        entries = append.entries
        if entries and entries[0].end <= start:
            entries = tuple(entry for entry in entries if entry.end > start)
        if not entries and not begins_anew:
            return log_end
        self.matched_end = end = end_of(entries, start)
        begin = min(start, entries[0].base) if entries else start  # the leader's log may start within its first entry
        if log_end <= begin and not begins_anew:
            persist.append(AppendEntries(entries))
            log_end = end
        else:
            own = [entry for entry in log.entries(begin, max(end, start + 1)) if entries or entry.base < start]
            own_end, log_end = log_end, max(log_end, end)
            begin_at = start if begins_anew and start > log.log_start else None
            for change in rewritten(own, own_end, entries, begin_at=begin_at, producers=append.producers):
                persist.append(change)
                if isinstance(change, Truncate):
                    self._high_watermark.fall_back(change.log_end)
                    self._log_start = min(self._log_start, change.log_end)
                    log_end = end
                elif isinstance(change, AdvanceLogStart):
                    self._log_start = change.offset
        # Of the last one in its log nobody but itself says where it is.
        follows = append.log_end if end < append.log_end else None
        self._high_watermark.advance(compacted_end(entries, start, follows), append.high_watermark_epoch)
        return log_end

    # what is said

    def _accepts(self, epoch: Epoch) -> bool:
        if self.has_failed:
            return False
        assert not self._ready.persist, "what was asked for before has not been carried out"
        if epoch != self.epoch or epoch != self._promise.epoch:
            if self._promise.refuses(epoch):
                self._send(Fenced(self._promise.epoch))
                return False
            self._enter(epoch)
        self.deadline = math.inf
        return True

    def _enter(self, epoch: Epoch) -> None:
        if self._promise.renew(epoch):
            self._ready.persist.append(StorePromise(epoch))
        if epoch > self.epoch:
            self.stop_copying("another epoch has begun")
            self.epoch = epoch
            self.matched_end = self._high_watermark.value
            self.is_compared = False
            self._expects_stamped_to = 0
            self._had_by_later_leaders = None
            self._synced_end = 0

    def _reply(self, log_end: int, *, missed: bool) -> None:
        self._send(
            AppendReply(
                self.epoch,
                self._spu,
                self._incarnation,
                self.matched_end,
                log_end,
                self._high_watermark.value,
                missed,
                self._log_start,
            )
        )

    def _say_failed(self) -> None:
        """Once on each connection: if it is lost, the leader hears nothing for long enough."""
        self._send(Hello(self.epoch, self._spu, self._incarnation, has_failed=True))

    def _send(self, message: Message) -> None:
        self._ready.send.append((self.leader, message))
