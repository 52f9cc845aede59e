"""A replica on this SPU: what handlers append to and read from.

It joins its log with what the broker knows about it: topic, leader epoch, high watermark and waiting requests. If a
partition has one replica, this replica leads as soon as its spec says so, and commits what it appends. If there are
several, a `Replication` says when this one leads and how far everything is committed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import trio

from tailrace.broker.replication.policy import ReplicationPolicy, parse_policy
from tailrace.cluster.shelf_lookup import earliest_offset
from tailrace.cluster.specs import NO_LEADER, PartitionSpec
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.runtime.descriptors import is_out_of_files
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark
from tailrace.storage.log.log import Log
from tailrace.storage.transactions.aborted_transactions import AbortedTransaction

from .acknowledgements import Acknowledgements, AcknowledgementWaiter
from .append_samples import AppendSamples
from .topic_settings import TopicSettings


class IsolatedError(KafkaError):
    """NOT_LEADER_OR_FOLLOWER from an isolated SPU, which does not know who leads. The client has to ask another SPU. It
    might never do so while this one responds, so the connection is closed after the response."""


class FetchWaiter(Protocol):
    """A consumer's fetch that waits until there is more to read."""

    def on_advanced(self) -> None:
        """Looks again whether there is enough to read."""


class Replication(Protocol):
    """A replica's part in replicating its partition, as the replica sees it."""

    @property
    def reaches_peers(self) -> bool:
        """Whether a leader is linked with enough followers to commit, or a follower with its leader."""

    @property
    def promised(self) -> Epoch:
        """The largest epoch to which the store has responded."""

    @property
    def is_sure(self) -> bool:
        """Whether the log has everything now that it has acknowledged."""

    def on_spec(self) -> None: ...

    def on_batches(self, batches: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Notes that a producer's batches with these headers were appended."""

    def on_appended(self) -> None:
        """Notes that something was appended; called once a turn."""

    def on_synced(self) -> None: ...

    def may_roll(self, segment_base: int) -> bool:
        """Returns whether everything before this segment is committed, or will be when the requested effects are
        carried out."""

    def on_compacted(self) -> None: ...

    def on_deleted(self) -> None:
        """Notes that the log start has moved."""

    def on_settings(self) -> None: ...

    def on_offline(self) -> None: ...


class Leadership(Protocol):
    """What a leader knows of its followers."""

    @property
    def deleted_end(self) -> int:
        """The offset before which records are deleted for good."""

    def follower_matched_end(self, spu: SpuId) -> int | None:
        """Returns the end up to which a connected follower is known to have the leader's log."""

    def follower_last_matched_end(self, spu: SpuId) -> int | None:
        """Returns the last known matched end of a follower, even if its connection was lost since."""


class Replica:
    """One replica: its log, its settings, and the requests that wait for its progress."""

    __slots__ = (
        "_commits_at_append",
        "_leader_waiters",
        "_on_offline",
        "_role_watcher",
        "_spu",
        "append_samples",
        "damaged_from",
        "deleted_end",
        "flush_running",
        "follower_last_matched_end",
        "follower_matched_end",
        "high_watermark",
        "high_watermark_epoch",
        "is_alone",
        "is_internal",
        "is_leader",
        "is_merging",
        "is_open",
        "is_recovering",
        "key",
        "lagging_count",
        "log",
        "offline_reason",
        "replicas_min",
        "replication",
        "settings",
        "spec",
        "syncs_before_acknowledging",
        "taken_over_at",
        "taken_over_end",
        "unsynced_since",
        "waiting_acknowledgements",
        "waiting_fetches",
        "waiting_syncs",
        "wants_append_note",
    )

    def __init__(
        self,
        spu: SpuId,
        spec: PartitionSpec,
        log: Log,
        settings: TopicSettings,
        high_watermark: int,
        high_watermark_epoch: Epoch = NO_EPOCH,
        *,
        on_offline: Callable[["Replica"], None] | None = None,
    ) -> None:
        self._spu = spu
        self._on_offline = on_offline
        self.log = log
        self.is_internal = spec.topic in INTERNAL_TOPICS
        """Whether only SPUs may write to the topic."""
        self.high_watermark = high_watermark
        """The offset before which everything is committed. It falls only if the log is truncated below it, after an
        unclean election."""
        self.high_watermark_epoch = high_watermark_epoch
        """An epoch such that everything below the high watermark was committed in it or earlier; NO_EPOCH if none is
        known."""
        self.waiting_fetches: dict[FetchWaiter, None] = {}
        self.waiting_acknowledgements: Acknowledgements | None = None
        """Produce requests that wait until the high watermark reaches their offset. None until the first request
        waits."""
        self.waiting_syncs: Acknowledgements | None = None
        """Produce requests that wait until the local log is synced up to their offset. None until the first request
        waits."""
        self.is_open = True
        """Whether the replica is in use; False when its topic was deleted or its log was given away."""
        self.is_merging = False
        """Whether a new leader is still merging what the sealed stores hold. Meanwhile the log end is not known, and
        nothing is appended."""
        self.is_recovering = False
        """Whether a new leader has not yet committed everything that earlier leaders left, so that acknowledged records
        may lie beyond the high watermark."""
        self.taken_over_at = -math.inf
        """When this replica, as a new leader, began to accept records."""
        self.taken_over_end = 0
        """The log end at `taken_over_at`: earlier leaders appended everything before it."""
        self.lagging_count = 0
        """How many live replicas lag. They leave, or stay because too few would be left without them."""
        self.follower_matched_end: Callable[[SpuId], int | None] = _no_follower
        """Returns the end up to which a connected follower has this leader's log; bound while this replica leads."""
        self.follower_last_matched_end: Callable[[SpuId], int | None] = _no_follower
        """Returns the last known matched end of a follower, even if its connection is lost; bound while this replica
        leads."""
        self.deleted_end = self._log_start
        """The offset before which records are deleted for good, under every later leader."""
        self._leader_waiters: trio.lowlevel.ParkingLot | None = None
        """Tasks that wait for `deleted_end` or for a spec. None until the first task waits."""
        self.offline_reason: str | None = None
        """Why the replica is offline: the first failed write, read or sync. Nothing is accepted afterwards."""
        self.damaged_from: int | None = None
        """The offset after which headers are damaged; set with `offline_reason` if the disk itself works."""
        self.unsynced_since: float | None = None
        self.flush_running = False
        self.append_samples: AppendSamples | None = None
        """When a few records were appended; None before the first one."""
        self.wants_append_note = True
        """Whether the flusher takes note of the next append: for its policy, or as a sample."""
        self.replication: Replication | None = None
        """None if the partition has no other replica."""
        self.is_leader = False
        """Whether this replica leads, in this process and in the newest known epoch."""
        self._role_watcher: Callable[[Replica], None] | None = None
        log.may_roll = self.may_roll
        log.on_compacted = self._on_compacted
        self._take(spec, settings)

    def _take(self, spec: PartitionSpec, settings: TopicSettings) -> None:
        """Takes over spec and settings, and computes what each append needs."""
        self.spec = spec
        self.settings = settings
        self.key: ReplicaKey = spec.topic_id, spec.partition
        self.is_alone = spec.replicas == (self._spu,)
        if self.is_alone:
            self.is_leader = spec.leader == self._spu
            self.high_watermark_epoch = NO_EPOCH  # a single replica's high watermark rises by itself
        self.replicas_min = min(settings.min_insync_replicas, len(spec.replicas))
        """The value of `min.insync.replicas`, or the number of replicas if that is smaller, as in Kafka.

        These places use it. `LivePolicy.committed_end` and `LiveReplicaTracker.has_enough_stored` commit nothing with
        fewer live replicas. `LiveReplicaTracker.propose` does not make the set smaller. `find_writable` in
        `produce_steps` refuses acks=all. A quorum read under `live` trusts no smaller set. `count_replicas` counts the
        partitions below the config's own value.
        """
        self.syncs_before_acknowledging = settings.log.flush_messages == 1
        self._commits_at_append = self.is_alone and not self.syncs_before_acknowledging

    # state

    @property
    def topic(self) -> str:
        return self.spec.topic

    @property
    def partition(self) -> int:
        return self.spec.partition

    @property
    def saved_high_watermark(self) -> SavedHighWatermark:
        """The high watermark that a restarted process should know."""
        return SavedHighWatermark(self.high_watermark, self.high_watermark_epoch)

    @property
    def earliest(self) -> int:
        """The first offset of the partition, in the log or on a shelf."""
        log_start = self.log.log_start
        return earliest_offset(self.spec, log_start) if self.spec.shelves else log_start

    @property
    def wants_more_shelves(self) -> bool:
        """Whether sealed segments of this replica should be put on shelves."""
        return self.settings.shelves and not self.is_internal

    @property
    def has_shelves(self) -> bool:
        """Whether the partition has shelves, or should have some."""
        return bool(self.spec.shelves) or self.wants_more_shelves

    @property
    def readable_end(self) -> int:
        """The offset at which consumers stop: the high watermark, or the leader's log end if the topic allows
        uncommitted reads."""
        return self.log.log_end if self.settings.reads_uncommitted and self.is_leader else self.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset at which committed readers stop: the high watermark, or the first offset of a transaction that is
        open, or whose marker is not committed yet."""
        high_watermark = self.high_watermark
        first = self.log.transactions.first_unstable(high_watermark)
        return high_watermark if first is None else min(high_watermark, max(first, self.log.log_start))

    @property
    def is_recovered_leader(self) -> bool:
        """Whether this log has everything that earlier leaders acknowledged, and only this replica appends what comes
        next."""
        return self.is_leader and not self.is_recovering and self.is_open and self.offline_reason is None

    # changes

    def use_settings(self, settings: TopicSettings) -> bool:
        """Takes over settings; returns whether they have changed."""
        if settings == self.settings:
            return False
        self._take(self.spec, settings)
        self.log.use_config(settings.log)
        if self.replication is not None:
            self.replication.on_settings()
        return True

    def use_spec(self, spec: PartitionSpec) -> None:
        """Takes over a spec, after an election or a change of the live replicas. Requests that cannot succeed any more
        are refused."""
        before, led, was_alone = self.spec, self.is_leader, self.is_alone
        self._take(spec, self.settings)
        if self.replication is not None and self.is_alone:
            self.is_leader = False  # until replication has released the log; see `lead_alone`
        elif not self.is_alone and (was_alone or spec.epoch != before.epoch):
            self.is_leader = False  # until replication begins the new epoch
        if led and not self.is_leader:
            self.refuse_waiters(self.not_leader())
        elif spec.epoch != before.epoch:
            self.on_advanced()  # a fetch of the earlier epoch is fenced
        self.wake_leader_waiters()
        self._on_role()
        if self.replication is not None and not self.is_alone:
            self.replication.on_spec()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        replicas, sets = len(self.spec.replicas), self.spec.copy_sets
        text = self.settings.replication_policy
        return parse_policy(text, replicas=replicas, replicas_min=self.replicas_min, copy_sets=sets)

    @property
    def live_count(self) -> int:
        """How many replicas are live and do not lag."""
        return len(self.spec.live_replicas) - self.lagging_count

    def watch_role(self, watcher: Callable[["Replica"], None]) -> None:
        """Calls the watcher now, and whenever `is_recovered_leader` or the epoch of the leadership may have changed."""
        self._role_watcher = watcher
        watcher(self)

    def begin_leading(self, leadership: Leadership | None = None) -> None:
        """Begins to lead. What is known to be committed can be read; replication says when there is more."""
        self.is_leader = self.is_merging = self.is_recovering = True
        if leadership is not None:
            self.follower_matched_end = leadership.follower_matched_end
            self.follower_last_matched_end = leadership.follower_last_matched_end
            self.deleted_end = lambda: leadership.deleted_end
        self._on_role()

    def end_merging(self, now: float) -> None:
        """Notes that the log has everything that the sealed stores hold, and that producers append from here on."""
        self.is_merging = False
        self.taken_over_at = now
        self.taken_over_end = self.log.log_end

    def end_recovering(self) -> None:
        """Notes that everything that earlier leaders left is committed."""
        self.is_recovering = False
        self._on_role()

    def stop_accepting(self) -> None:
        """Stops appending, because the SPU stops. What is in the log still reaches the followers."""
        self.is_leader = False
        self._on_role()

    def end_leading(self) -> None:
        """Refuses everything that waits, because this replica does not lead any more."""
        self.is_leader = self.is_merging = self.is_recovering = False
        self.lagging_count = 0
        self.follower_matched_end = self.follower_last_matched_end = _no_follower
        self.deleted_end = self._log_start
        self.refuse_waiters(self.not_leader())
        self._on_role()

    def lead_alone(self) -> None:
        """Leads a partition that has no other replica, or none any more."""
        self.is_leader = self.spec.leader == self._spu
        self.on_advanced()
        self._on_role()

    def on_committed(self, end: int, epoch: Epoch) -> None:
        """Takes over a high watermark, with an epoch such that everything below was committed in it or earlier."""
        if end >= self.high_watermark:
            self.high_watermark_epoch = NO_EPOCH if self.is_alone else epoch
        if end > self.high_watermark:
            self.high_watermark = end
            self.on_advanced()

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Appends one stamped batch at the log end. Raises KafkaError if nothing was appended; the replica is offline
        if the disk has failed."""
        try:
            self.log.append(batch, header)
        except OSError as error:
            raise self._refused("append", error) from error
        if self._commits_at_append:
            self.high_watermark = self.log.log_end
        elif self.replication is not None:
            self.replication.on_batches(batch, (header,))

    def append_together(self, batches: Buffer, headers: Sequence[BatchHeader]) -> bool:
        """Appends several batches with one write. Returns False without an effect if their segment has no room for
        all."""
        try:
            if not self.log.append_together(batches, headers):
                return False
        except OSError as error:
            raise self._refused("append", error) from error
        if self._commits_at_append:
            self.high_watermark = self.log.log_end
        elif self.replication is not None:
            self.replication.on_batches(batches, headers)
        return True

    async def delete_records(self, end: int) -> None:
        """Deletes the records before `end` in this log. `deleted_end` says when no later leader can have them.

        Raises KafkaError if the topic was deleted in the meantime, or if deleting failed; the replica is offline if the
        disk has failed.
        """
        try:
            await self.log.advance_log_start(end)
        except OSError as error:
            if not self.is_open:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic} was deleted") from error
            raise self._refused("deleting records", error) from error
        if self.replication is not None:
            self.replication.on_deleted()

    def read(self, offset: int, bytes_max: int, end: int, *, at_least_one: bool) -> FileRange | None:
        """Reads from `offset` up to the end that the reader may see; None if there is nothing.

        Like the other reads it raises KafkaError if reading fails; the replica is offline if the disk has failed.
        """
        try:
            # An empty response makes librdkafka believe that it asks for too few bytes, and it complains.
            return self.log.read(offset, bytes_max, end, at_least_one=at_least_one, passes_empty=True)
        except OSError as error:
            raise self._refused("read", error) from error

    def aborted_in(self, found: FileRange, start: int, end: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions of what `read` has found in [start, end), sorted by their first offsets."""
        try:
            return self.log.aborted_in(found, start, end)
        except OSError as error:
            raise self._refused("read", error) from error

    def find_timestamp(self, timestamp_ms: int, end: int) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first record before `end` that is not older."""
        with self._refusing_reads():
            return self.log.find_timestamp(timestamp_ms, end)

    def max_timestamp(self, end: int) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first of the newest records before `end`."""
        with self._refusing_reads():
            return self.log.max_timestamp(end)

    def batch_time(self, offset: int) -> int | None:
        """Returns the largest timestamp of the batch that begins at the offset; None if it has been deleted."""
        with self._refusing_reads():
            header, _ = next(self.log.headers(offset, offset + 1), (None, None))
        return None if header is None or header.base_offset != offset else header.max_timestamp

    @contextmanager
    def _refusing_reads(self) -> Iterator[None]:
        """Refuses a failed read with a KafkaError. `read`, which each fetch calls, does this without another call."""
        try:
            yield
        except OSError as error:
            raise self._refused("read", error) from error

    def wait_until_committed(self, end: int, waiter: AcknowledgementWaiter) -> None:
        """Tells the waiter when everything before `end` is committed, or that this replica will not say so any more."""
        waiting = self.waiting_acknowledgements
        if waiting is None:
            waiting = self.waiting_acknowledgements = Acknowledgements()
        waiting.add(end, waiter)

    def wait_until_synced(self, end: int, waiter: AcknowledgementWaiter) -> None:
        """Tells the waiter when everything before `end` is on the local disk, or that this replica will not say so any
        more."""
        waiting = self.waiting_syncs
        if waiting is None:
            waiting = self.waiting_syncs = Acknowledgements()
        waiting.add(end, waiter)

    async def wait_until_deleted(self, end: int, epoch: int) -> None:
        """Waits until each possible next leader knows that the records before `end` are deleted.

        Raises KafkaError if this replica does not lead in that epoch any more, because then it cannot know.
        """
        await self._wait_as_leader(lambda: self.deleted_end() >= end, epoch)

    async def wait_for_spec(self, is_there: Callable[[PartitionSpec], bool], epoch: int) -> None:
        """Waits until the SC has sent such a spec.

        Raises KafkaError if this replica does not lead in that epoch any more, because then the spec does not matter.
        """
        await self._wait_as_leader(lambda: is_there(self.spec), epoch)

    def check_leads(self, epoch: int) -> None:
        """Raises KafkaError unless the replica still leads in that epoch. What was begun in an epoch must not be
        reported by another."""
        if not self.is_leader or self.spec.epoch != epoch:
            raise self.not_leader()

    async def _wait_as_leader(self, has_come: Callable[[], bool], epoch: int) -> None:
        while True:
            if self.offline_reason is not None:
                raise self.storage_error()
            self.check_leads(epoch)
            if has_come():
                return
            if self._leader_waiters is None:
                self._leader_waiters = trio.lowlevel.ParkingLot()
            await self._leader_waiters.park()

    def wake_leader_waiters(self) -> None:
        """Wakes the tasks that wait for a deletion or a spec, because it may have come, or cannot come any more."""
        if self._leader_waiters is not None:
            self._leader_waiters.unpark_all()

    def may_roll(self, segment_base: int) -> bool:
        """Returns whether another segment may follow the one with this base: at most two segments are not committed."""
        if self.replication is not None:
            return self.replication.may_roll(segment_base)
        return self.high_watermark >= segment_base

    def _on_compacted(self) -> None:
        if self.replication is not None:
            self.replication.on_compacted()

    def _log_start(self) -> int:
        return self.log.log_start

    def on_advanced(self) -> None:
        """Releases the acknowledgements and wakes the fetches that wait for what is now committed, synced or readable.

        `handlers/records/produce_steps.py` says when an acknowledgement waits, and `handlers/records/fetch.py` lists
        everything that wakes a fetch.
        """
        if self.is_alone and self.replication is None:
            committed = self.log.synced_end if self.syncs_before_acknowledging else self.log.log_end
            self.high_watermark = max(self.high_watermark, committed)
        self.settle_transactions()
        acknowledgements, syncs = self.waiting_acknowledgements, self.waiting_syncs
        if acknowledgements is not None:
            waiting = acknowledgements.waiting
            if waiting and waiting[0][0] <= self.high_watermark:
                acknowledgements.release(self.high_watermark)
        if syncs is not None and syncs.waiting:
            self._release_synced(syncs)
        if self.waiting_fetches:
            for fetch in list(self.waiting_fetches):
                fetch.on_advanced()

    def settle_transactions(self) -> None:
        """Forgets transactions whose markers are committed now. Where an append commits, nothing else may do it."""
        if self.log.transactions.is_unsettled:
            self.log.transactions.first_unstable(self.high_watermark)

    def on_synced(self) -> None:
        """Notes that more of the log is on disk. If this commits, there is also more to read."""
        if self.is_alone and self.replication is None and self.high_watermark < self.log.synced_end:
            self.on_advanced()
        elif self.waiting_syncs is not None and self.waiting_syncs.waiting:
            self._release_synced(self.waiting_syncs)

    def _release_synced(self, syncs: Acknowledgements) -> None:
        """Acknowledges requests up to the synced end, or all of them if `flush.messages` is not 1 any more."""
        syncs.release(self.log.synced_end if self.syncs_before_acknowledging else self.log.log_end)

    async def close(self) -> None:
        """Gives up and closes the log."""
        self.release_log()
        await self.log.close()

    def release_log(self) -> None:
        """Gives the log away: this replica must not use it any more."""
        self.is_open = False
        self._on_role()

    def go_offline(self, reason: str, *, damaged_from: int | None = None) -> None:
        """Accepts nothing more, and refuses everything that waits. The first reason is kept."""
        if self.offline_reason is None:
            self.offline_reason, self.damaged_from = reason, damaged_from
            if self._on_offline is not None:
                self._on_offline(self)
        self.refuse_waiters(self.storage_error())
        self._on_role()
        if self.replication is not None:
            self.replication.on_offline()

    def _on_role(self) -> None:
        if self._role_watcher is not None:
            self._role_watcher(self)

    def refuse_waiters(self, error: KafkaError) -> None:
        """Refuses all waiting requests, because the replica will acknowledge nothing more."""
        for waiting in (self.waiting_acknowledgements, self.waiting_syncs):
            if waiting is not None:
                waiting.refuse(error)
        self.wake_leader_waiters()
        for fetch in list(self.waiting_fetches):
            fetch.on_advanced()

    def is_out_of_descriptors(self, error: OSError) -> bool:
        """Returns whether the error only means that no more files can be opened. Then nothing is wrong with the disk,
        and nothing was begun."""
        return is_out_of_files(error) and not self.log.has_failed

    def _refused(self, what: str, error: OSError) -> KafkaError:
        """Returns the KafkaError for a failed operation; takes the replica offline if the disk has failed."""
        if self.is_out_of_descriptors(error):  # the client retries
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no more files can be opened now: {error}")
        self.go_offline(f"{what} failed: {error}")
        return self.storage_error()

    def storage_error(self) -> KafkaError:
        """Returns the error for clients of an offline replica."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the replica is offline: {self.offline_reason}")

    def not_leader(self) -> KafkaError:
        """Returns the error for clients that need a leader, with what is known about it."""
        if self.spec.leader == self._spu:
            reason = f"SPU {self._spu} does not lead {self.topic}-{self.partition} any more, or not yet"
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        leader = "no SPU" if self.spec.leader == NO_LEADER else f"SPU {self.spec.leader}"
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{leader} leads {self.topic}-{self.partition}")

    def isolated_error(self) -> IsolatedError:
        """Returns the error of a replica on an isolated SPU (see `Isolation`): another replica leads by now, if one
        can."""
        whom = "enough followers" if self.is_leader else "the leader"
        return IsolatedError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"SPU {self._spu} reaches neither the Streaming Controller nor {whom} of {self.topic}-{self.partition}",
        )

    def not_leading_yet(self) -> KafkaError:
        """Returns the error for requests that depend on the log end while it is being recovered; clients retry."""
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the end of {self.topic}-{self.partition} is being recovered"
        )

    def wrong_epoch(self, epoch: int) -> KafkaError:
        """Returns the error for a client that knows the leader of another epoch."""
        now = self.spec.epoch
        if epoch < now:
            return KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {epoch} is over; this is epoch {now}")
        return KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {epoch} is unknown; this is epoch {now}")


def _no_follower(spu: SpuId) -> int | None:
    return None
