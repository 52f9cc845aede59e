"""Leads a replica set in one epoch: carries messages between the core's `Leader`, its followers and the SC."""

from collections.abc import Iterator, Sequence
from functools import partial

import trio

from tailrace.broker.peers.peer_messages import (
    FetchedEntries,
    FetchEntries,
    PeerMessage,
    ReceivedBatches,
    RecordsToSend,
)
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import ReplicaLog, batch_of_recovery
from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.high_watermark import HighWatermark
from tailrace.broker.replication.leader import Leader, LeaderLimits
from tailrace.broker.replication.live_replica_tracker import LagLimits, LiveReplicaTracker
from tailrace.broker.replication.messages import (
    RECORDS_BYTES_MAX,
    Append,
    AppendReply,
    Fenced,
    Hello,
    Message,
    ProposeLiveReplicas,
    SealReply,
)
from tailrace.broker.replication.ready import Ready
from tailrace.broker.replication.sealing import Promise
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import iterate, read_header, stamp
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import FIRST_EPOCH, Epoch, SpuId
from tailrace.runtime.descriptors import RETRY_SECONDS
from tailrace.runtime.files import Buffer
from tailrace.runtime.logs import FilteringBoundLogger

from .role_context import RoleContext

PROPOSAL_RETRY_SECONDS = 1.0
FETCH_SECONDS_MAX = 5.0
WRITTEN_BY_RECOVERY = (EntryKind.HOLE, EntryKind.BRIDGE)
LIMITS = LeaderLimits(append_bytes_max=256 * 1024, appends_in_flight_max=8)


class MissingEntriesError(Exception):
    """A store does not send entries that it has described and that recovery needs."""

    def __init__(self, holder: SpuId) -> None:
        super().__init__(f"SPU {holder} did not send the entries that recovery needs")
        self.holder = holder


class LeaderController:
    """The shell of a leader role."""

    def __init__(
        self,
        replica: Replica,
        entries: ReplicaLog,
        promise: Promise,
        high_watermark: HighWatermark,
        context: RoleContext,
        logger: FilteringBoundLogger,
        *,
        in_doubt: bool,
        now: float,
    ) -> None:
        spec = replica.spec
        self._replica = replica
        self._entries = entries
        self._context = context
        self._high_watermark = high_watermark
        self._logger = logger.bind(epoch=spec.epoch)
        self._fetched: dict[int, Buffer] = {}
        """Batches fetched from other stores, by base offset, until recovery has appended them. They may include batches
        of a store that did not send all, and whose response does not count any more."""
        self._own_batches: dict[int, Buffer] = {}
        """Batches of the own log behind the truncation point that recovery appends again, by base offset."""
        self._fetch_progress = trio.Event()
        self._has_stopped_fetching = False
        self._changed = trio.Event()
        self._is_over = False
        policy = replica.replication_policy
        self.core = Leader(
            context.spu,
            spec.epoch,
            spec.replicas,
            log=entries,
            promise=promise,
            high_watermark=high_watermark,
            in_doubt=in_doubt,
            policy=policy,
            live_replicas=LiveReplicaTracker(
                context.spu,
                context.store_incarnation,
                spec.epoch,
                spec.live_incarnations,
                spec.version,
                limits=_lag_limits_of(replica),
                members_min=policy.replicas_min,
                retry_seconds=PROPOSAL_RETRY_SECONDS,
                now=now,
            ),
            limits=LIMITS,
            now=now,
            syncs_before_acknowledging=replica.syncs_before_acknowledging,
            was_unclean=spec.was_unclean,
        )
        if spec.epoch == FIRST_EPOCH:  # thousands may begin at once
            self._logger.debug("leading_began", log_end=entries.log_end, high_watermark=replica.high_watermark)
        else:
            self._logger.info("leading_began", log_end=entries.log_end, high_watermark=replica.high_watermark)

    @property
    def epoch(self) -> Epoch:
        return self.core.epoch

    @property
    def reaches_peers(self) -> bool:
        return self.core.can_commit

    # life cycle

    def begin(self, now: float) -> None:
        self._replica.begin_leading(self.core)
        spus = self._context.cluster.spus
        for spu in self._replica.spec.replicas:
            if spu in spus and not spus[spu].online:
                self.core.on_offline(spu, now)
        for hello in self._context.peers.take_hellos(self._replica.key):
            self.core.on_hello(hello, now)

    def end(self) -> None:
        self._is_over = True
        self._changed.set()
        self.stop_fetching()
        self._context.peers.forget(self._replica.key)
        self._replica.end_leading()

    async def settled(self) -> None:
        """Waits until every live follower knows that everything is committed, or until this leader is over."""
        while not (self.core.is_settled or self._is_over):
            await self._changed.wait()

    # events

    def on_spec(self, spec: PartitionSpec, now: float) -> None:
        """Takes over another spec of this epoch, with other replicas or other live replicas."""
        live = self.core.live_replicas
        members, reasons = live.stored.keys(), live.lagging
        self.core.on_copy_set(spec.replicas, now)
        self.core.on_live_replicas(spec.epoch, spec.version, spec.live_incarnations, now)
        for spu in sorted(members - live.stored.keys()):
            reason = reasons[spu].value if spu in reasons else "it is not a replica any more"
            self._logger.info("live_replica_left", follower=spu, reason=reason, log_end=self._replica.log.log_end)
        for spu in sorted(live.stored.keys() - members):
            self._logger.info("live_replica_entered", follower=spu, log_end=self._replica.log.log_end)

    def on_settings(self, now: float) -> None:
        self.core.syncs_before_acknowledging = self._replica.syncs_before_acknowledging
        self.core.on_synced(self._replica.log.synced_end, now)
        self.core.use_policy(self._replica.replication_policy, _lag_limits_of(self._replica), now)

    def on_message(self, spu: SpuId, from_leader: bool, message: PeerMessage, now: float) -> None:
        core = self.core
        match message:
            case AppendReply():
                core.on_append_reply(message, now)
            case Hello():
                core.on_hello(message, now)
            case SealReply():
                core.on_seal_reply(message, now)
            case Fenced():
                core.on_fenced(message)
            case _:
                pass  # an earlier leader, or an SPU that has heard that another one leads

    def on_fetched(self, message: FetchedEntries, received: ReceivedBatches) -> None:
        """Takes batches for recovery. The core is not told: it waits until its recovery is carried out."""
        if message.epoch == self.epoch:
            kept = memoryview(received.kept().data)
            for position, header in iterate(kept):
                self._fetched[header.base_offset] = kept[position : position + header.size]
            self._fetch_progress.set()

    # effects of the core

    def send(self, to: SpuId, message: Message) -> None:
        records: RecordsToSend | None = None
        if type(message) is Append and message.entries:
            base, end = message.entries[0].base, message.entries[-1].end
            if end <= message.high_watermark:
                self._context.metrics.caught_up_bytes += sum(entry.size for entry in message.entries)
            records = self._entries.recent_batches.between(base, end)
            if records is None or not self._context.peers.keeps_up(to):
                records = partial(self._replica.log.read_batches, base, end)
        self._context.peers.send_to_follower(to, self._replica.key, message, records)

    def announce_leadership(self) -> None:
        """Tells the SC that recovery is going on: enough stores have promised, so another leader would only start again
        and be no faster."""
        spec = self._replica.spec
        self._context.live_replicas.propose(self._replica.key, ProposeLiveReplicas(self.epoch, spec.version, ()))

    def finish(self, ready: Ready) -> bool:
        """Carries out what remains of the effects; returns whether this leader goes on."""
        replica, core = self._replica, self.core
        if core.is_stopping:
            self._changed.set()
            self._changed = trio.Event()
        if ready.fenced_by is not None:
            self._logger.info("leading_ended", newer_epoch=ready.fenced_by)
            return False
        if not core.is_serving:
            replica.is_merging = True
        elif replica.is_merging:
            replica.end_merging(trio.current_time())
        if ready.propose is not None:
            self._context.live_replicas.propose(replica.key, ready.propose)
        replica.lagging_count = len(core.live_replicas.lagging)
        replica.on_committed(self._high_watermark.value, self._high_watermark.epoch)
        if ready.delete_to is not None:
            self._context.nursery.start_soon(self._delete, ready.delete_to)
        if ready.suspect_from is not None:
            self._context.on_suspected(replica, ready.suspect_from)
        replica.wake_leader_waiters()
        if replica.is_recovering and core.has_sealed_earlier_segments:
            replica.end_recovering()
        return True

    async def _delete(self, end: int) -> None:
        """Deletes what an earlier leader had deleted before it could tell all stores."""
        while not self._is_over:
            try:
                await self._replica.delete_records(end)
            except KafkaError:
                if self._replica.offline_reason is not None or not self._replica.is_open:
                    return  # no client waits for this; the next request learns that the replica is offline or gone
                await trio.sleep(RETRY_SECONDS)
            else:
                self._logger.info("deletion_taken_over", log_start=end)
                return

    def keep_own_batches(self, entries: Sequence[Entry]) -> None:
        """Keeps the batches of those entries that the own log has, before it is truncated."""
        self._own_batches.clear()
        wanted = {entry.base: entry for entry in entries if entry.kind not in WRITTEN_BY_RECOVERY}
        if not wanted:
            return
        for own in self._entries.entries(min(wanted), self._entries.log_end):
            entry = wanted.get(own.base)
            if entry is not None and entry.is_same_as(own):
                (found,) = self._replica.log.read_batches(own.base, own.end)
                self._own_batches[own.base] = found.file.read_at(found.position, found.count)

    async def batches_of(self, entries: Sequence[Entry]) -> list[bytearray]:
        """Returns the stamped bytes that recovery appends next: written by recovery, kept, or fetched from their
        holders."""
        missing = [
            entry for entry in entries if entry.kind not in WRITTEN_BY_RECOVERY and entry.base not in self._own_batches
        ]
        if missing:
            await self._fetch(missing)
        batches = [stamped_copy(self._batch_of(entry), entry) for entry in entries]
        self._fetched.clear()
        return batches

    def _batch_of(self, entry: Entry) -> Buffer:
        if entry.kind in WRITTEN_BY_RECOVERY:
            return batch_of_recovery(entry)
        return self._own_batches.pop(entry.base, None) or self._fetched[entry.base]

    def stop_fetching(self) -> None:
        """Stops waiting for batches, because a newer leader is known."""
        self._has_stopped_fetching = True
        self._fetch_progress.set()

    async def _fetch(self, missing: Sequence[Entry]) -> None:
        """Fetches the batches of these entries. Raises MissingEntriesError."""
        holders = [self.core.holders_of(entry)[0] for entry in missing]
        for holder, start, end in _ranges_to_fetch(missing, holders):
            self._context.peers.send_to_follower(holder, self._replica.key, FetchEntries(self.epoch, start, end))
        self._context.peers.flush()
        with trio.move_on_after(FETCH_SECONDS_MAX):
            while not (self._has_stopped_fetching or all(map(self._has_fetched, missing))):
                self._fetch_progress = trio.Event()
                await self._fetch_progress.wait()
        for entry, holder in zip(missing, holders, strict=True):  # the last one may have arrived at the timeout
            if not self._has_fetched(entry):
                raise MissingEntriesError(holder)

    def _has_fetched(self, entry: Entry) -> bool:
        batch = self._fetched.get(entry.base)
        return batch is not None and read_header(batch).crc == entry.content


def _ranges_to_fetch(entries: Sequence[Entry], holders: Sequence[SpuId]) -> Iterator[tuple[SpuId, int, int]]:
    """Yields holder, start and end of each request: adjacent entries of one store share a request, up to the size of a
    response."""
    asked: tuple[SpuId, int, int] | None = None
    size = 0
    for entry, holder in zip(entries, holders, strict=True):
        size += entry.size
        if asked is not None and asked[0] == holder and asked[2] == entry.base and size <= RECORDS_BYTES_MAX:
            asked = holder, asked[1], entry.end
            continue
        if asked is not None:
            yield asked
        asked, size = (holder, entry.base, entry.end), entry.size
    if asked is not None:
        yield asked


def _lag_limits_of(replica: Replica) -> LagLimits:
    return LagLimits(replica.settings.lag_records_max, replica.settings.lag_seconds_max)


def stamped_copy(batch: Buffer, entry: Entry) -> bytearray:
    """Returns a copy of the batch with the entry's offset and epoch."""
    copy = bytearray(batch)
    stamp(copy, 0, entry.base, entry.epoch)
    return copy
