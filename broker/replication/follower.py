"""A follower replica under one leader: makes its log equal to the leader's, and says how far it is.

A follower cannot know how much of its log was acknowledged; even the high watermark that it knows may be too small. So
it truncates only where a leader of the newest epoch shows a difference.
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
from .rewriting import changes_to_match
from .sealing import Promise


class Follower:
    """A follower replica: decides what to do with each message of its leader."""

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
        hello_interval_seconds: float = 1.0,
        copy_limits: CopyLimits | None = None,
        turn: int = 0,
    ) -> None:
        """`copy_limits` is None if nothing may be copied from other followers; `turn` decides which one is asked
        first."""
        self._spu = spu
        self._incarnation = incarnation
        self._log = log
        self._promise = promise
        self._high_watermark = high_watermark
        self._policy = policy
        self._policy_epoch = epoch
        """The epoch of `_policy`. In the next epoch other stores may be enough to commit; the spec will say so."""
        self._hello_interval_seconds = hello_interval_seconds
        self.is_compared = False
        """Whether the epochs of this log were compared with those of the leader of this epoch."""
        self._synced_end = 0
        """The end up to which this log is known to be both matched in this epoch and synced."""
        self._log_start = log.log_start
        """The log start after all requested effects."""
        self._stamped_end_noted = 0
        self._copy_limits = copy_limits
        self._turn = turn
        self._copying: Copying | None = None
        """The copy in progress. Meanwhile the leader gets no reply, so it stops sending when its window is full."""
        self._exhausted_sources: frozenset[SpuId] = frozenset()
        """The followers that are not asked for copies again while they stay in the live replica set."""
        self._later_leaders_end: tuple[Epoch, int] | None = None
        """An epoch, and the end up to which its leader and later ones know this log. It is kept because the log behind
        the matched end does not change until it is truncated, and may be long."""
        self._ready = Ready()
        self.leader = leader
        self.epoch = epoch
        self.in_doubt = in_doubt
        self.has_failed = has_failed
        """Whether the disk has failed. The replica then only tells its leader so."""
        self.syncs_before_acknowledging = syncs_before_acknowledging
        self.matched_end = high_watermark.value
        """The end up to which this log is known to equal the log of this epoch's leader."""
        self.deadline = math.inf
        """When to repeat Hello; infinite without a connection, or once the leader has responded on it."""
        if not has_failed:
            self._enter_epoch(epoch)

    # events

    def on_linked(self, now: float) -> None:
        """Says Hello, because there is a new connection to the leader's SPU."""
        if self.has_failed:
            self._say_failed()
            return
        self.deadline = now
        self.on_deadline(now)

    def on_link_lost(self) -> None:
        """Stops repeating Hello until there is another connection."""
        self.deadline = math.inf

    def on_deadline(self, now: float) -> None:
        """Repeats Hello if the leader has not responded."""
        if now >= self.deadline:
            self._send(Hello(self.epoch, self._spu, self._incarnation))
            self.deadline = now + self._hello_interval_seconds

    def on_failed(self) -> None:
        """Gives up, because the disk has failed. The requested effects may not have been carried out."""
        self.has_failed = True
        self.deadline = math.inf
        self._copying = None
        self._ready = Ready()
        self._say_failed()

    def on_seal(self, seal: Seal) -> None:
        """Promises the leader's epoch and describes this log."""
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
        """Takes over the policy of a spec. The leader may have announced this epoch earlier."""
        self._policy, self._policy_epoch, self._copy_limits = policy, epoch, copy_limits
        if copy_limits is None:
            self.stop_copying("the settings of its topic have changed")

    def on_append(self, append: Append) -> None:
        """Matches the leader's entries and replies with the matched end."""
        if not self._accepts(append.epoch):
            return
        self.is_compared = True
        log_end = self._log.log_end
        self._advance_to_committed(append, log_end)
        starts_over = self.matched_end < append.base <= append.log_start
        missed = append.base > self.matched_end and not starts_over
        self._log_start = self._log.log_start
        if missed:
            self._sync()  # what was just taken as committed
        else:
            log_end = self._match_append(append, log_end, starts_over)
            if append.stamped_end > self.matched_end:
                self._begin_copying(append, log_end)
        if self._copying is None:
            self._reply(log_end, missed=missed)
        else:
            self._copying.on_append(append)

    def on_copied(self, copied: CopyResponse) -> None:
        """Takes in the response of another follower to a copy request."""
        copying = self._copying
        if copying is None or not copying.is_waiting_for(copied.request):
            return  # another epoch has begun, or another copy
        assert not self._ready.persist, "earlier effects have not been carried out"
        log_end = self._log.log_end
        assert log_end == self.matched_end, "a copy begins only if nothing lies behind the matched end"
        entries = copying.take(copied, self.matched_end)
        self._log_start = self._log.log_start
        if entries:
            latest_append = copying.latest_append
            as_if_sent = replace(latest_append, base=self.matched_end, entries=entries, stamped_end=0, epochs=())
            log_end = self._match_append(as_if_sent, log_end, starts_over=False)
        self._ask_for_copies(log_end)

    def take_ready(self) -> Ready:
        """Returns the effects to carry out, and forgets them."""
        ready, self._ready = self._ready, Ready()
        return ready

    def stop_copying(self, reason: str | None = None) -> None:
        """Ends the copy, if there is one. The next reply makes the leader continue."""
        if self._copying is not None:
            self._ready.copy_end = self._copying.outcome(self.matched_end, reason)
            self._copying = None

    # copying from other followers

    def _is_worth_copying(self, append: Append) -> bool:
        """Returns whether the follower should copy. It waits for the spec of this epoch, which says if there ever was
        an unclean election."""
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
        self._exhausted_sources &= others
        sources = rotated(others - self._exhausted_sources, self._turn)
        if sources:
            end, bytes_max = self._stamped_end_noted, self._copy_limits.portion_bytes_max
            self._copying = Copying(append, end, sources, bytes_max)
            self._ask_for_copies(log_end)

    def _ask_for_copies(self, log_end: int) -> None:
        """Requests the next portion, or ends the copy and replies to the leader."""
        copying = self._copying
        assert copying is not None
        self._ready.copy_request = copying.next_request(self.matched_end)
        self._exhausted_sources |= copying.exhausted
        if self._ready.copy_request is None:
            self.stop_copying()
            self._reply(log_end, missed=False)

    # changes of the log

    def _compare(self, seal: Seal, log_end: int) -> None:
        """Lowers the matched end to where this log and the leader's agree.

        They agree up to the high watermark, unless a leader was elected that lacked something below it.
        """
        self.is_compared = True
        log = self._log
        agreed = common_end(log.epochs, log.log_end, seal.epochs, log_end)
        if agreed < log.log_start:
            # What was deleted here is something else in the leader's log, or the leader has not deleted as much.
            agreed = 0
        end = min(self._high_watermark.value, max(agreed, seal.log_start), log.log_end, log_end)
        self.matched_end = min((entry.base for entry in log.entries(end, end + 1)), default=end)

    def _advance_to_committed(self, append: Append, log_end: int) -> None:
        """Raises matched end and high watermark to what is known to be committed without comparing entries.

        Comparing would not be enough. If the leader's log is compacted and the epochs in both logs differ, entries
        could not be shown to be the same. They would be truncated, and would be missing here until the leader has sent
        them again.
        """
        end = append.high_watermark
        if self.matched_end >= end or self.matched_end >= log_end:
            return
        if not self._has_all_committed(append):
            end = min(end, self._end_known_to_later_leaders(append))
        if end > self.matched_end:
            self._high_watermark.advance(end, append.high_watermark_epoch)
            self.matched_end = end

    def _has_all_committed(self, append: Append) -> bool:
        """Returns whether this log has everything committed, because nothing can be committed without this store."""
        if self.in_doubt or append.high_watermark > self._log.log_end:
            return False
        is_of_policy = self.epoch == self._policy_epoch or not self._policy.reads_others
        return is_of_policy and not self._policy.commits_without({self._spu}, append.live_replicas)

    def _end_known_to_later_leaders(self, append: Append) -> int:
        """Returns the end up to which this log has what was committed, as entries of later leaders show; 0 if none
        does.

        The leaders of the epoch in which the high watermark was committed, and all later leaders, had everything below
        it. So this log has it, too, up to the last entry that one of these leaders has stamped. Within one epoch,
        matching is enough.
        """
        committed_in, log = append.high_watermark_epoch, self._log
        if committed_in == NO_EPOCH or committed_in == append.epoch:
            return 0
        if self._later_leaders_end is None or self._later_leaders_end[0] != committed_in:
            own = log.entries(self.matched_end, log.log_end)
            end = max((entry.end for entry in own if entry.epoch >= committed_in), default=0)
            self._later_leaders_end = committed_in, end
        return self._later_leaders_end[1]

    def _match_append(self, append: Append, log_end: int, starts_over: bool) -> int:
        """Makes the log equal to the leader's from the matched end on, as far as the Append goes; returns the new log
        end.

        `starts_over` means that the leader has deleted entries that this log lacks. What this log has behind them is
        kept.
        """
        persist = self._ready.persist
        if starts_over:
            self.matched_end = append.base
        start = self.matched_end
        log_end = self._rewrite(append, log_end, starts_over)
        if start < append.stamped_end and (not self._stamped_end_noted or self._is_worth_copying(append)):
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
        """Moves the log start to the leader's, as far as everything before it is known to be committed."""
        log_start = min(log_start, self._high_watermark.value)
        if log_start > self._log_start:
            self._ready.persist.append(AdvanceLogStart(log_start))
            self._log_start = log_start

    def _sync(self) -> None:
        """Syncs what was matched, if it must be on disk before it is acknowledged."""
        if self.syncs_before_acknowledging and self._synced_end < self.matched_end:
            self._ready.persist.append(Sync())
            self._synced_end = self.matched_end

    def _expect_stamped(self, append: Append) -> None:
        """Notes where epochs begin, before the first entry with a stamp of recovery is appended; once in an epoch.

        It is also needed before a copy, because batches of the source may be stamped where the leader's are not.
        """
        persist = self._ready.persist
        for index, effect in enumerate(persist):
            if isinstance(effect, AppendEntries):
                base = effect.entries[0].base
                if base < append.stamped_end:
                    persist.insert(index, ExpectStamped(append.stamped_end, epochs_from(append.epochs, base)))
                    self._stamped_end_noted = append.stamped_end
                return

    def _rewrite(self, append: Append, log_end: int, starts_over: bool) -> int:
        """Requests the changes that make this log equal to the Append's entries; returns the new log end."""
        persist, log, start = self._ready.persist, self._log, self.matched_end
        entries = append.entries
        if entries and entries[0].end <= start:
            entries = tuple(entry for entry in entries if entry.end > start)
        if not entries and not starts_over:
            return log_end
        self.matched_end = end = end_of(entries, start)
        begin = min(start, entries[0].base) if entries else start  # the leader's log may start within its first entry
        if log_end <= begin and not starts_over:
            persist.append(AppendEntries(entries))
            log_end = end
        else:
            own = [entry for entry in log.entries(begin, max(end, start + 1)) if entries or entry.base < start]
            own_end, log_end = log_end, max(log_end, end)
            begin_at = start if starts_over and start > log.log_start else None
            for change in changes_to_match(own, own_end, entries, begin_at=begin_at, producers=append.producers):
                persist.append(change)
                if isinstance(change, Truncate):
                    self._high_watermark.fall_back(change.log_end)
                    self._log_start = min(self._log_start, change.log_end)
                    log_end = end
                elif isinstance(change, AdvanceLogStart):
                    self._log_start = change.offset
        # Only the last entry of the log itself says where it ends.
        follows = append.log_end if end < append.log_end else None
        self._high_watermark.advance(compacted_end(entries, start, follows), append.high_watermark_epoch)
        return log_end

    # messages

    def _accepts(self, epoch: Epoch) -> bool:
        """Returns whether a message of this epoch may be followed; a smaller epoch than the promise is fenced."""
        if self.has_failed:
            return False
        assert not self._ready.persist, "earlier effects have not been carried out"
        if epoch != self.epoch or epoch != self._promise.epoch:
            if self._promise.refuses(epoch):
                self._send(Fenced(self._promise.epoch))
                return False
            self._enter_epoch(epoch)
        self.deadline = math.inf
        return True

    def _enter_epoch(self, epoch: Epoch) -> None:
        """Promises the epoch, and starts matching again if it is a new one."""
        if self._promise.renew(epoch):
            self._ready.persist.append(StorePromise(epoch))
        if epoch > self.epoch:
            self.stop_copying("another epoch has begun")
            self.epoch = epoch
            self.matched_end = self._high_watermark.value
            self.is_compared = False
            self._stamped_end_noted = 0
            self._later_leaders_end = None
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
        """Tells the leader about the failed disk, once on each connection. If the message is lost, the leader removes
        this follower when it has been silent for too long."""
        self._send(Hello(self.epoch, self._spu, self._incarnation, has_failed=True))

    def _send(self, message: Message) -> None:
        self._ready.send.append((self.leader, message))
