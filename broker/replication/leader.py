"""A leader replica, for one epoch: seals its copy set, recovers what the last leader left, replicates, commits.

Whatever it acknowledges, any later leader finds: on every live replica, or on enough stores that whoever seals meets
one. It never cuts its log once it serves, so that its epoch and an offset name one content for ever.
"""

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tailrace.protocol.ids import Epoch, SpuId

from .entries import Entry, ReplicaLog
from .high_watermark import HighWatermark
from .live_replicas import FollowerStanding, LiveReplicas
from .messages import Append, AppendReply, Fenced, Hello, Message, Seal, SealReply
from .policy import ReplicationPolicy
from .ready import EndDoubt, Ready, StorePromise
from .recovery import begins_like, bridge, merge, rewritten
from .sealing import Promise, Sealing


@dataclass(frozen=True, slots=True)
class LeaderLimits:
    append_bytes_max: int = 1 << 20
    appends_in_flight_max: int = 8
    """For each follower; with the size of one, the window."""
    quiet_seconds_max: float = 0.5
    """After so long without an answer a follower is sent something again."""
    high_watermark_delay_seconds: float = 0.01
    """So long a new high watermark waits for entries that take it along."""


@dataclass(slots=True)
class _Link:
    """A follower, in the process that said Hello."""

    incarnation: str
    matched_end: int | None = None
    """None until it has answered the seal."""
    high_watermark: int = 0
    sent_end: int = 0
    in_flight: deque[int] = field(default_factory=deque)
    """Ends of what was sent and has not been matched."""
    sent_again_from: int | None = None
    """One gap makes many replies; it is closed once."""
    quiet_at: float = 0.0
    asked_at: float = -math.inf
    log_end_when_asked: int = 0
    """How long the leader's log was at that time: who matches it later was caught up then."""

    def rewind(self, to: int) -> None:
        self.sent_end = to
        self.in_flight.clear()


class Leader:
    def __init__(
        self,
        spu: SpuId,
        epoch: Epoch,
        copy_set: Collection[SpuId],
        *,
        log: ReplicaLog,
        promise: Promise,
        high_watermark: HighWatermark,
        in_doubt: bool,
        policy: ReplicationPolicy,
        live_replicas: LiveReplicas,
        limits: LeaderLimits,
        syncs_before_acknowledging: bool = False,
        now: float,
    ) -> None:
        self._spu = spu
        self._copy_set = frozenset(copy_set)
        self._log = log
        self._promise = promise
        self._high_watermark = high_watermark
        self._policy = policy
        self._limits = limits
        self._links: dict[SpuId, _Link] = {}
        self._sealing = Sealing(policy, high_watermark.value)
        self._recovers_from = high_watermark.value
        self._ready = Ready()
        self._synced_end = 0
        self.epoch = epoch
        self.live_replicas = live_replicas
        self.is_serving = False
        """Accepts batches; before that, nobody knows where the log ends."""
        self.is_over = False
        self.is_stopping = False
        self.syncs_before_acknowledging = syncs_before_acknowledging
        self.recovered_end = 0
        """Up to here goes what earlier epochs left, with the bridge: one segment, sealed when this is committed."""
        self._seal_own_store(in_doubt, now)

    # what is

    @property
    def high_watermark(self) -> int:
        return self._high_watermark.value

    @property
    def has_sealed_earlier_segments(self) -> bool:
        return self.is_serving and self.high_watermark >= self.recovered_end

    @property
    def is_settled(self) -> bool:
        """Every live follower has all, and knows that it is committed: another leader will have nothing to recover."""
        log_end = self._log.log_end
        followers = [self._links.get(spu) for spu in self.live_replicas.stored if spu != self._spu]
        return self.high_watermark == log_end and all(
            link is not None and link.high_watermark == log_end for link in followers
        )

    def holders_of(self, entry: Entry) -> list[SpuId]:
        """The followers that said, when they were sealed, that they have this entry."""
        return [
            spu
            for spu, entries in self._sealing.entries.items()
            if spu != self._spu and any(entry.same_as(held) for held in entries)
        ]

    @property
    def deadline(self) -> float:
        if self.is_over:
            return math.inf
        quiet_at = min((link.quiet_at for link in self._links.values()), default=math.inf)
        return min(quiet_at, self.live_replicas.deadline) if self.is_serving else quiet_at

    # what happened

    def on_hello(self, hello: Hello, now: float) -> None:
        if not self._is_of_this_epoch(hello.epoch, hello.spu) or hello.spu not in self._copy_set:
            return
        link = self._links.get(hello.spu)
        if link is None or link.incarnation != hello.incarnation:
            link = self._links[hello.spu] = _Link(hello.incarnation)
        self._seal(hello.spu, link, now)

    def on_seal_reply(self, reply: SealReply, now: float) -> None:
        link = self._speaking(reply.epoch, reply.spu, reply.incarnation, now)
        if link is None:
            return
        if not self.is_serving:
            self._sealing.add(reply)
            self._recover_if_sealed(now)
        link.high_watermark = reply.high_watermark
        if self.is_serving:
            self._begin(link, reply.high_watermark, now)
            self._commit(now)

    def on_append_reply(self, reply: AppendReply, now: float) -> None:
        link = self._speaking(reply.epoch, reply.spu, reply.incarnation, now)
        if link is None or link.matched_end is None:
            return
        link.quiet_at = now + self._limits.quiet_seconds_max
        link.matched_end = max(link.matched_end, reply.matched_end)
        link.sent_end = max(link.sent_end, link.matched_end)
        link.high_watermark = max(link.high_watermark, reply.high_watermark)
        while link.in_flight and link.in_flight[0] <= link.matched_end:
            link.in_flight.popleft()
        if reply.missed and link.sent_again_from != reply.matched_end:
            link.sent_again_from = reply.matched_end
            link.rewind(reply.matched_end)
        self._note_caught_up(reply.spu, link, now)
        self._push(reply.spu, link, now)
        self._commit(now)

    def on_appended(self, now: float) -> None:
        """The log has grown, by a producer's batches."""
        assert self.is_serving and not self.is_over
        for spu, link in self._links.items():
            self._push(spu, link, now)
        self._commit(now)

    def on_synced(self, end: int, now: float) -> None:
        """The own log is on the disk up to there; matters where that must be before it is acknowledged."""
        self._synced_end = max(self._synced_end, end)
        self._commit(now)

    def on_link_lost(self, spu: SpuId, now: float) -> None:
        """What was sent may be lost, and the follower is silent until it says Hello again."""
        self._links.pop(spu, None)

    def on_stopping(self, now: float) -> None:
        """Nothing more is appended; the followers are told at once that all is committed."""
        self.is_stopping = True
        self._commit(now)

    def on_live_replicas(self, epoch: Epoch, version: int, members: Mapping[SpuId, str], now: float) -> None:
        """What the Streaming Controller has stored."""
        if epoch > self.epoch:
            self._end(epoch)
        elif epoch == self.epoch and not self.is_over:
            self.live_replicas.on_stored(version, members)
            self._commit(now)

    def on_offline(self, spu: SpuId, now: float) -> None:
        """The Streaming Controller has lost that SPU."""
        self.live_replicas.on_offline(spu)
        self._commit(now)

    def on_fenced(self, fenced: Fenced) -> None:
        if fenced.promised > self.epoch:
            self._end(fenced.promised)

    def on_deadline(self, now: float) -> None:
        if self.is_over:
            return
        for spu, link in self._links.items():
            if now >= link.quiet_at:
                self._speak_up(spu, link, now)
            else:
                self._push(spu, link, now)
        self._commit(now)

    def take_ready(self) -> Ready:
        ready, self._ready = self._ready, Ready()
        return ready

    # sealing and recovering

    def _seal_own_store(self, in_doubt: bool, now: float) -> None:
        if self._promise.renew(self.epoch):
            self._ready.persist.append(StorePromise(self.epoch))
        self._sealing.add(
            SealReply(
                self.epoch,
                self._spu,
                "",
                self.high_watermark,
                self._log.log_end,
                in_doubt,
                tuple(self._log.entries(self._recovers_from, self._log.log_end)),
            )
        )
        self._recover_if_sealed(now)

    def _seal(self, spu: SpuId, link: _Link, now: float) -> None:
        link.quiet_at = now + self._limits.quiet_seconds_max
        asks = self._policy.reads_others and not self.is_serving
        self._send(spu, Seal(self.epoch, self._recovers_from if asks else None))

    def _recover_if_sealed(self, now: float) -> None:
        """From here on all is known that may have been acknowledged: makes the own log hold it."""
        if not self._sealing.is_complete:
            return
        own_end = self._log.log_end
        start, stores = self._recovers_from, self._sealing.entries
        own = stores[self._spu]
        lowest = min((entries[0].base for entries in stores.values() if entries), default=start)
        committed = list(self._log.entries(lowest, start))
        fit = [entries for entries in stores.values() if begins_like(committed, start, entries)]
        wanted = merge(start, fit, self.epoch)
        if wanted:
            wanted.append(bridge(wanted, self.epoch))
        self._ready.persist.extend(rewritten(own, wanted))
        if self._spu in self._sealing.in_doubt:
            self._ready.persist.append(EndDoubt())
        self.recovered_end = wanted[-1].end if wanted else own_end
        self._high_watermark.advance(min(self._sealing.high_watermark, self.recovered_end))
        self.is_serving = True
        for spu, link in self._links.items():
            if spu in stores:
                self._begin(link, link.high_watermark, now)

    # replicating

    def _begin(self, link: _Link, high_watermark: int, now: float) -> None:
        """Below its high watermark a store has the committed log, which is this one."""
        self._high_watermark.advance(min(high_watermark, self.recovered_end))
        if link.matched_end is None:
            link.matched_end = min(high_watermark, self.recovered_end)
        link.rewind(link.matched_end)
        link.sent_again_from = None
        link.quiet_at = now

    def _push(self, spu: SpuId, link: _Link, now: float) -> None:
        while (
            link.matched_end is not None
            and link.sent_end < self._log.log_end
            and len(link.in_flight) < self._limits.appends_in_flight_max
        ):
            entries = self._next_entries(link.sent_end)
            self._append(spu, link, entries, now)
            link.sent_end = entries[-1].end
            link.in_flight.append(link.sent_end)

    def _next_entries(self, start: int) -> tuple[Entry, ...]:
        """As many as one message takes, and at least one."""
        entries: list[Entry] = []
        size = 0
        for entry in self._log.entries(start, self._log.log_end):
            size += entry.size
            if entries and size > self._limits.append_bytes_max:
                break
            entries.append(entry)
        return tuple(entries)

    def _append(self, spu: SpuId, link: _Link, entries: tuple[Entry, ...], now: float) -> None:
        if link.quiet_at < now:
            link.quiet_at = now + self._limits.quiet_seconds_max
        live = frozenset(self.live_replicas.counting)
        self._send(
            spu,
            Append(
                self.epoch, link.sent_end, entries, self.high_watermark, self._log.log_end, self._log.log_start, live
            ),
        )

    def _speak_up(self, spu: SpuId, link: _Link, now: float) -> None:
        """Nothing was heard for a while: what was sent may be lost, and the answer to this will tell."""
        link.quiet_at = now + self._limits.quiet_seconds_max
        if link.matched_end is None:
            self._seal(spu, link, now)
            return
        link.sent_again_from = None
        self._push(spu, link, now)
        self._append(spu, link, (), now)

    def _note_caught_up(self, spu: SpuId, link: _Link, now: float) -> None:
        assert link.matched_end is not None
        log_end = self._log.log_end
        if link.matched_end >= log_end:
            self.live_replicas.on_caught_up(spu, now)
        elif link.matched_end >= link.log_end_when_asked:
            self.live_replicas.on_caught_up(spu, link.asked_at)
        else:
            return
        link.asked_at, link.log_end_when_asked = now, log_end

    # committing

    def _commit(self, now: float) -> None:
        """Moves the high watermark, and the live set."""
        if not self.is_serving or self.is_over or self._ready.persist:
            return
        log_end = self._log.log_end
        matched = {spu: link.matched_end for spu, link in self._links.items() if link.matched_end is not None}
        committed = self._policy.committed_end({**matched, self._spu: log_end}, self.live_replicas.counting)
        if self._high_watermark.advance(committed):
            self._ready.acknowledged_end = committed
            for spu, link in self._links.items():
                if link.matched_end is not None and link.sent_end >= log_end:
                    self._append(spu, link, (), now)
        standings = {
            spu: FollowerStanding(self._links[spu].incarnation, end, self._links[spu].high_watermark)
            for spu, end in matched.items()
        }
        proposal = self.live_replicas.propose(
            standings,
            log_end=log_end,
            high_watermark=self.high_watermark,
            entry_end=self.recovered_end,
            now=now,
        )
        if proposal is not None:
            self._ready.propose = proposal

    # ends, and what is not for this leader

    def _speaking(self, epoch: Epoch, spu: SpuId, incarnation: str, now: float) -> _Link | None:
        """The follower that says this. Another process than the one that is known has to be sealed first.

        Whichever it is, the old or the new one: a Hello may have been late, and the one who lives speaks last.
        """
        if not self._is_of_this_epoch(epoch, spu):
            return None
        link = self._links.get(spu)
        if link is not None and link.incarnation == incarnation:
            return link
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
            self._ready.acknowledged_end = None
            self._ready.fenced_by = newer

    def _send(self, spu: SpuId, message: Message) -> None:
        self._ready.send.append((spu, message))
