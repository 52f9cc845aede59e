"""A follower replica, for one leader: makes its log the leader's, and says how far it is.

Its log ends where it ends, and nobody knows how much of that was acknowledged: not even the high watermark says, which
may be behind. So nothing is cut but what a leader of the newest epoch shows to be different.
"""

import math
from collections.abc import Sequence

from tailrace.protocol.ids import Epoch, SpuId

from .entries import Entry, ReplicaLog
from .high_watermark import HighWatermark
from .messages import Append, AppendReply, Fenced, Hello, Message, Seal, SealReply
from .ready import AdvanceLogStart, AppendEntries, Cut, EndDoubt, Ready, StorePromise, Sync
from .recovery import restamps
from .sealing import Promise


class Follower:
    def __init__(
        self,
        spu: SpuId,
        incarnation: str,
        leader: SpuId,
        epoch: Epoch,
        *,
        log: ReplicaLog,
        promise: Promise,
        high_watermark: HighWatermark,
        in_doubt: bool,
        syncs_before_acknowledging: bool = False,
        hello_again_seconds: float = 1.0,
    ) -> None:
        self._spu = spu
        self._incarnation = incarnation
        self._log = log
        self._promise = promise
        self._high_watermark = high_watermark
        self._hello_again_seconds = hello_again_seconds
        self._ready = Ready()
        self.leader = leader
        self.epoch = epoch
        self.in_doubt = in_doubt
        self.syncs_before_acknowledging = syncs_before_acknowledging
        self.matched_end = high_watermark.value
        """Up to where this log is known to be the one of this epoch's leader."""
        self.deadline = math.inf
        """When to say Hello again: there is a link, and the leader has not answered on it."""
        self._enter(epoch)

    # what happened

    def on_linked(self, now: float) -> None:
        """There is a connection to the leader's SPU, a new one or the first."""
        self.deadline = now
        self.on_deadline(now)

    def on_link_lost(self) -> None:
        self.deadline = math.inf

    def on_deadline(self, now: float) -> None:
        if now >= self.deadline:
            self._send(Hello(self.epoch, self._spu, self._incarnation))
            self.deadline = now + self._hello_again_seconds

    def on_seal(self, seal: Seal, now: float) -> None:
        if not self._accepts(seal.epoch, now):
            return
        start, end = seal.entries_from, self._log.log_end
        if start is None:
            entries: tuple[Entry, ...] = ()
        else:
            entries = tuple(self._log.entries(min(start, self._high_watermark.value), end))
        self._send(
            SealReply(self.epoch, self._spu, self._incarnation, self._high_watermark.value, end, self.in_doubt, entries)
        )

    def on_append(self, append: Append, now: float) -> None:
        if not self._accepts(append.epoch, now):
            return
        missed = append.base > self.matched_end
        log_end = self._log.log_end
        if not missed:
            log_end = self._match([entry for entry in append.entries if entry.end > self.matched_end])
            if log_end > self.matched_end == append.log_end:
                self._ready.persist.append(Cut(self.matched_end))
                log_end = self.matched_end
            self._high_watermark.advance(min(append.high_watermark, self.matched_end))
            if append.log_start > self._log.log_start:
                self._ready.persist.append(AdvanceLogStart(min(append.log_start, self._high_watermark.value)))
            if self.syncs_before_acknowledging and self._ready.persist:
                self._ready.persist.append(Sync())
            if self.in_doubt and self.matched_end >= append.log_end:
                self._ready.persist.append(EndDoubt())
                self.in_doubt = False
        self._send(
            AppendReply(
                self.epoch,
                self._spu,
                self._incarnation,
                self.matched_end,
                log_end,
                self._high_watermark.value,
                missed,
            )
        )

    def take_ready(self) -> Ready:
        ready, self._ready = self._ready, Ready()
        return ready

    def _accepts(self, epoch: Epoch, now: float) -> bool:
        assert not self._ready.persist, "what was asked for before has not been carried out"
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
            self.epoch = epoch
            self.matched_end = self._high_watermark.value

    def _match(self, entries: Sequence[Entry]) -> int:
        """Makes the log the leader's from the matched end on, as far as these entries reach. Returns its new end."""
        log_end = self._log.log_end
        if not entries:
            return log_end
        own = list(self._log.entries(self.matched_end, max(entries[-1].end, self.matched_end + 1)))
        same = 0
        while same < min(len(own), len(entries)) and own[same].same_as(entries[same]):
            same += 1
        self._ready.persist.extend(restamps(own[:same], entries[:same]))
        self.matched_end = entries[-1].end
        if same == len(entries):
            return log_end
        if same < len(own):
            self._ready.persist.append(Cut(own[same].base))
        self._ready.persist.append(AppendEntries(tuple(entries[same:])))
        return self.matched_end

    def _send(self, message: Message) -> None:
        self._ready.send.append((self.leader, message))
