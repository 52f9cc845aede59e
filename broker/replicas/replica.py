"""A replica on this SPU: what handlers append to and read from.

It joins its log with what the broker knows of it: topic, leader epoch, high watermark, and who waits for what.
One that has the partition to itself leads as soon as it is told to, and commits what it appends; where there are
several, a controller takes part in replication, and says when this one leads and how far all is committed.
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
from tailrace.runtime.descriptors import are_used_up
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark
from tailrace.storage.log.log import Log

from .acknowledgements import Acknowledgements, AcknowledgementWaiter
from .topic_settings import TopicSettings


class IsolatedError(KafkaError):
    """NOT_LEADER_OR_FOLLOWER of one who can tell nobody who leads: the client has to ask another SPU. As long as this
    one answers, it may never do so: the connection is closed behind the answer."""


class FetchWaiter(Protocol):
    """A consumer's fetch, parked until there is more to read."""

    def on_advanced(self) -> None: ...


class Replication(Protocol):
    """The replica's part in replicating its partition."""

    @property
    def reaches_peers(self) -> bool:
        """Whether a leader is linked with those it commits with, and a follower with its leader."""

    @property
    def promised(self) -> Epoch:
        """The largest epoch that the store has answered to."""

    @property
    def is_sure(self) -> bool:
        """Whether the log has all that it acknowledged, just now."""

    def on_spec(self) -> None: ...

    def on_batches(self, batches: Buffer, headers: Sequence[BatchHeader]) -> None:
        """A producer's batches were appended, with these headers."""

    def on_appended(self) -> None:
        """Called once a turn."""

    def on_synced(self) -> None: ...

    def may_roll(self, segment_base: int) -> bool:
        """Returns whether everything before this segment is committed, or will be once all is carried out."""

    def on_compacted(self) -> None: ...

    def on_deleted(self) -> None:
        """The log starts later than before."""

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
    __slots__ = (
        "_commits_at_append",
        "_leader_waiters",
        "_on_offline",
        "_role_watcher",
        "_spu",
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
        """Of a topic that SPUs themselves write to, and nobody else."""
        self.high_watermark = high_watermark
        """Exclusive. It falls only where a log is cut below it, after an unclean election."""
        self.high_watermark_epoch = high_watermark_epoch
        """In this one or an earlier one that was committed; NO_EPOCH: nobody has said so."""
        self.waiting_fetches: dict[FetchWaiter, None] = {}
        self.waiting_acknowledgements: Acknowledgements | None = None
        """Until the high watermark has reached their offsets. None before the first."""
        self.waiting_syncs: Acknowledgements | None = None
        """The same, until the log here has reached the disk up to there."""
        self.is_open = True
        """False once its topic has gone."""
        self.is_merging = False
        """While a new leader has not made one log of what the stores hold: nobody knows where it ends, and nothing is
        appended."""
        self.is_recovering = False
        """While a new leader has not committed all that the one before left: what was acknowledged may lie beyond the
        high watermark."""
        self.taken_over_at = -math.inf
        """When it last had made one log of what the stores held, and began to take more."""
        self.taken_over_end = 0
        """Where that log ended: earlier leaders appended all before it."""
        self.lagging_count = 0
        """Live replicas that lag behind: they leave, or stay because fewer may not be live."""
        self.follower_matched_end: Callable[[SpuId], int | None] = _nobody_follows
        """Up to where a follower is known to have the log of the leader here."""
        self.follower_last_matched_end: Callable[[SpuId], int | None] = _nobody_follows
        """The same, also of one whose link is lost: what it said last."""
        self.deleted_end = self._log_start
        """Up to where records are deleted for good, whoever leads next."""
        self._leader_waiters: trio.lowlevel.ParkingLot | None = None
        """Those who wait for that, or for what the Streaming Controller says of it. None before the first."""
        self.offline_reason: str | None = None
        """Set by the first failed write, read or sync; nothing is accepted afterwards."""
        self.damaged_from: int | None = None
        """Set with it where nothing is wrong with the disk, but headers soon after that offset are none any more."""
        self.unsynced_since: float | None = None
        self.flush_running = False
        self.replication: Replication | None = None
        """None where there are no other replicas."""
        self.is_leader = False
        """In this process and epoch, and nobody has said that there is a newer one."""
        self._role_watcher: Callable[[Replica], None] | None = None
        log.may_roll = self.may_roll
        log.on_compacted = self._on_compacted
        self._take(spec, settings)

    def _take(self, spec: PartitionSpec, settings: TopicSettings) -> None:
        """Works out once what every append asks."""
        self.spec = spec
        self.settings = settings
        self.key: ReplicaKey = spec.topic_id, spec.partition
        self.is_alone = spec.replicas == (self._spu,)
        if self.is_alone:
            self.is_leader = spec.leader == self._spu
            self.high_watermark_epoch = NO_EPOCH  # it rises by itself
        self.replicas_min = min(settings.min_insync_replicas, len(spec.replicas))
        """`min.insync.replicas`; beyond the replicas that the partition has, all of them are enough, as in Kafka."""
        self.syncs_before_acknowledging = settings.log.flush_messages == 1
        self._commits_at_append = self.is_alone and not self.syncs_before_acknowledging

    # what is

    @property
    def topic(self) -> str:
        return self.spec.topic

    @property
    def partition(self) -> int:
        return self.spec.partition

    @property
    def saved_high_watermark(self) -> SavedHighWatermark:
        """What is to be known of it after a restart."""
        return SavedHighWatermark(self.high_watermark, self.high_watermark_epoch)

    @property
    def earliest(self) -> int:
        """Where the partition begins: with the log, or on a shelf."""
        log_start = self.log.log_start
        return earliest_offset(self.spec, log_start) if self.spec.shelves else log_start

    @property
    def wants_more_shelves(self) -> bool:
        """Whether more of it is to be put on shelves."""
        return self.settings.shelves and not self.is_internal

    @property
    def has_shelves(self) -> bool:
        """Or is to have some."""
        return bool(self.spec.shelves) or self.wants_more_shelves

    @property
    def readable_end(self) -> int:
        """Where consumers stop: the high watermark, or the leader's log end where the topic opted in to uncommitted
        reads."""
        return self.log.log_end if self.settings.reads_uncommitted and self.is_leader else self.high_watermark

    @property
    def is_recovered_leader(self) -> bool:
        """Whether all that was acknowledged under earlier leaders is in the log here, and what comes next is appended
        here alone."""
        return self.is_leader and not self.is_recovering and self.is_open and self.offline_reason is None

    # what happened

    def use_settings(self, settings: TopicSettings) -> bool:
        """Whether they are others than before."""
        if settings == self.settings:
            return False
        self._take(self.spec, settings)
        self.log.use_config(settings.log)
        if self.replication is not None:
            self.replication.on_settings()
        return True

    def use_spec(self, spec: PartitionSpec) -> None:
        """An election, or another live replica set. Who waits for what cannot come any more is told so."""
        before, led, was_alone = self.spec, self.is_leader, self.is_alone
        self._take(spec, self.settings)
        if self.replication is not None and self.is_alone:
            self.is_leader = False  # until replication is done with the log: see `lead_alone`
        elif not self.is_alone and (was_alone or spec.epoch != before.epoch):
            self.is_leader = False  # until replication says that the new epoch has begun
        if led and not self.is_leader:
            self.refuse_waiters(self.not_leader())
        elif spec.epoch != before.epoch:
            self.on_advanced()  # a fetch of the epoch before is fenced
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
        """How many replicas are live and do not lag behind."""
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
        """The log has all that the stores held, and more is appended from here on."""
        self.is_merging = False
        self.taken_over_at = now
        self.taken_over_end = self.log.log_end

    def end_recovering(self) -> None:
        """All that the leader before left is committed."""
        self.is_recovering = False
        self._on_role()

    def stop_accepting(self) -> None:
        """The SPU stops: what it has still reaches its followers, and nothing is appended any more."""
        self.is_leader = False
        self._on_role()

    def end_leading(self) -> None:
        self.is_leader = self.is_merging = self.is_recovering = False
        self.lagging_count = 0
        self.follower_matched_end = self.follower_last_matched_end = _nobody_follows
        self.deleted_end = self._log_start
        self.refuse_waiters(self.not_leader())
        self._on_role()

    def lead_alone(self) -> None:
        """Its followers have gone, if it had any."""
        self.is_leader = self.spec.leader == self._spu
        self.on_advanced()
        self._on_role()

    def on_committed(self, end: int, epoch: Epoch) -> None:
        """All below is on as many replicas as it has to be, since this epoch or an earlier one."""
        if end >= self.high_watermark:
            self.high_watermark_epoch = NO_EPOCH if self.is_alone else epoch
        if end > self.high_watermark:
            self.high_watermark = end
            self.on_advanced()

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """One batch, stamped, at the log end. Raises KafkaError when nothing could be appended; the replica is offline
        then, if it is the disk that refuses."""
        try:
            self.log.append(batch, header)
        except OSError as error:
            raise self._refused("append", error) from error
        if self._commits_at_append:
            self.high_watermark = self.log.log_end
        elif self.replication is not None:
            self.replication.on_batches(batch, (header,))

    def append_together(self, batches: Buffer, headers: Sequence[BatchHeader]) -> bool:
        """As `append`, several with one write. False: their segment has no room for all, and nothing has happened."""
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
        """All below the offset, here: `deleted_end` says when nobody who leads next can have them. Raises KafkaError
        when the topic was deleted meanwhile, or when that could not be done; the replica is offline then, if it is the
        disk that refuses."""
        try:
            await self.log.advance_log_start(end)
        except OSError as error:
            if not self.is_open:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic} was deleted") from error
            raise self._refused("deleting records", error) from error
        if self.replication is not None:
            self.replication.on_deleted()

    def read(self, offset: int, bytes_max: int, end: int, *, at_least_one: bool) -> FileRange | None:
        """What there is from the offset on, up to the end that its reader may see. Like the next three it raises
        KafkaError when the disk refuses; the replica is offline then, if it is the disk."""
        try:
            # librdkafka takes an answer without any record for a sign that it asks for too few bytes, and complains.
            return self.log.read(offset, bytes_max, end, at_least_one=at_least_one, passes_empty=True)
        except OSError as error:
            raise self._refused("read", error) from error

    def find_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first committed record that is not older."""
        with self._refusing_reads():
            return self.log.find_timestamp(timestamp_ms, self.high_watermark)

    def max_timestamp(self) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first of the newest committed records."""
        with self._refusing_reads():
            return self.log.max_timestamp(self.high_watermark)

    def batch_time(self, offset: int) -> int | None:
        """Returns the largest timestamp of the batch that begins at the offset; None if it has been deleted."""
        with self._refusing_reads():
            header, _ = next(self.log.headers(offset, offset + 1), (None, None))
        return None if header is None or header.base_offset != offset else header.max_timestamp

    @contextmanager
    def _refusing_reads(self) -> Iterator[None]:
        """Turns a failed read into the KafkaError for the client. `read` does the same without this call."""
        try:
            yield
        except OSError as error:
            raise self._refused("read", error) from error

    def wait_until_committed(self, end: int, waiter: AcknowledgementWaiter) -> None:
        """The waiter hears when all below the offset is committed, or that this replica will not say so any more."""
        waiting = self.waiting_acknowledgements
        if waiting is None:
            waiting = self.waiting_acknowledgements = Acknowledgements()
        waiting.add(end, waiter)

    def wait_until_synced(self, end: int, waiter: AcknowledgementWaiter) -> None:
        """The waiter hears when all below the offset is on the disk here, whoever else has it."""
        waiting = self.waiting_syncs
        if waiting is None:
            waiting = self.waiting_syncs = Acknowledgements()
        waiting.add(end, waiter)

    async def wait_until_deleted(self, end: int, epoch: int) -> None:
        """Until whoever leads next knows that the records below are deleted. Raises KafkaError if this replica does
        not lead in that epoch any more: then it cannot know."""
        await self._wait_as_leader(lambda: self.deleted_end() >= end, epoch)

    async def wait_for_spec(self, is_there: Callable[[PartitionSpec], bool], epoch: int) -> None:
        """Until the Streaming Controller has said so. Raises KafkaError if this replica does not lead in that epoch any
        more: then it does not matter."""
        await self._wait_as_leader(lambda: is_there(self.spec), epoch)

    def check_leads(self, epoch: int) -> None:
        """Raises KafkaError unless it still leads in that epoch: what was begun then must not be told by another."""
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
        """What they wait for may have come, or cannot come any more."""
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

    def on_synced(self) -> None:
        """More of the log is on the disk than before: where that is what commits, it can be read as well."""
        if self.is_alone and self.replication is None and self.high_watermark < self.log.synced_end:
            self.on_advanced()
        elif self.waiting_syncs is not None and self.waiting_syncs.waiting:
            self._release_synced(self.waiting_syncs)

    def _release_synced(self, syncs: Acknowledgements) -> None:
        """All of them, where it is not for the disk any more that they wait: flush.messages was 1."""
        syncs.release(self.log.synced_end if self.syncs_before_acknowledging else self.log.log_end)

    async def close(self) -> None:
        self.release_log()
        await self.log.close()

    def release_log(self) -> None:
        """It is somebody else's from now on."""
        self.is_open = False
        self._on_role()

    def go_offline(self, reason: str, *, damaged_from: int | None = None) -> None:
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
        """The replica will acknowledge nothing more: everyone who waits is told."""
        for waiting in (self.waiting_acknowledgements, self.waiting_syncs):
            if waiting is not None:
                waiting.refuse(error)
        self.wake_leader_waiters()
        for fetch in list(self.waiting_fetches):
            fetch.on_advanced()

    def is_out_of_descriptors(self, error: OSError) -> bool:
        """Nothing is wrong with the disk where all files that may be open are: what was to be done was not begun."""
        return are_used_up(error) and not self.log.has_failed

    def _refused(self, what: str, error: OSError) -> KafkaError:
        if self.is_out_of_descriptors(error):  # the client tries again
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no more files can be opened now: {error}")
        self.go_offline(f"{what} failed: {error}")
        return self.storage_error()

    def storage_error(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the replica is offline: {self.offline_reason}")

    def not_leader(self) -> KafkaError:
        if self.spec.leader == self._spu:
            reason = f"SPU {self._spu} does not lead {self.topic}-{self.partition} any more, or not yet"
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        leader = "nobody" if self.spec.leader == NO_LEADER else f"SPU {self.spec.leader}"
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{leader} leads {self.topic}-{self.partition}")

    def isolated_error(self) -> IsolatedError:
        """Another one leads by now, if one can."""
        whom = "those that it commits with" if self.is_leader else "the leader"
        return IsolatedError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"SPU {self._spu} reaches neither the Streaming Controller nor {whom} of {self.topic}-{self.partition}",
        )

    def not_leading_yet(self) -> KafkaError:
        """For what depends on the end of a log that is being merged; clients ask again."""
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the end of {self.topic}-{self.partition} is being recovered"
        )

    def wrong_epoch(self, epoch: int) -> KafkaError:
        """The client knows the leadership of another epoch."""
        now = self.spec.epoch
        if epoch < now:
            return KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {epoch} is over; this is epoch {now}")
        return KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {epoch} is unknown here; this is {now}")


def _nobody_follows(spu: SpuId) -> int | None:
    return None
