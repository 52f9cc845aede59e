"""A led partition of `__consumer_offsets`, with its coordinator between clients and the log.

The coordinator's records are appended first, and its responses are sent when the records are committed. When this SPU
stops leading, the coordinator is discarded: the next leader loads the same state from its log.
"""

import math
from collections.abc import Callable, Sequence

import trio

from tailrace.broker.groups.common.coordinator_output import CoordinatorOutput, PendingResponse, Waiter
from tailrace.broker.groups.common.coordinator_records import GroupRecord, decode_record, encode_record
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.replicas.deadlines import Timer
from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.batches.keyed_records import keep_last
from tailrace.protocol.batches.record_batch import BatchHeader, crc_of, iterate, read_header
from tailrace.protocol.batches.records import Record, build_batch, open_body
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey
from tailrace.runtime.descriptors import retry_when_out_of_files
from tailrace.runtime.logs import FilteringBoundLogger

from .group_context import GroupContext, not_coordinator

LOAD_BYTES = 1 << 18
LOAD_RECORDS = 1000
"""How many bytes are read, and how many records replayed, before other tasks run."""

BARRIER = GroupRecord(OffsetCommitKey(group="", topic="", partition=-1), None)
"""A record without effect: the tombstone of an offset that is never committed."""

Call = Callable[[Coordinator, Moment], None]


class GroupPartition:
    def __init__(self, replica: Replica, context: GroupContext, restart: Callable[["GroupPartition"], None]) -> None:
        self.replica = replica
        self.epoch = replica.spec.epoch
        self.coordinator = Coordinator(context.settings, context.cluster, context.new_id, context.counts)
        self.is_loaded = False
        self.loaded_ms = -1
        """The time at which the partition was loaded, by the wall clock; -1 before."""
        self.failure: str | None = None
        """Why the partition could not be loaded; None if it could."""
        self._context = context
        self._restart = restart
        """Discards this object and loads another one from the log."""
        self._logger: FilteringBoundLogger = context.logger.bind(
            topic=replica.topic, partition=replica.partition, epoch=self.epoch
        )
        self._is_over = False
        self._loading = trio.CancelScope()
        self._alarm: Timer | None = None

    # life

    async def load(self) -> None:
        """Replays the whole log. After that the partition accepts requests."""
        if self._is_over:
            return
        began = trio.current_time()
        with self._loading:
            try:
                count = await retry_when_out_of_files(self._replay)
                self.coordinator.on_loaded(self._moment())
                self._carry_out()
            except AssertionError:
                raise
            except (OSError, KafkaError) as error:
                # Other replicas may have an intact log, and one of them will lead.
                self.replica.go_offline(f"its groups could not be loaded: {error}")
                return
            except Exception as error:
                # The next leader may fail in the same way. If this replica went offline, one SPU after the other would.
                self.failure = str(error)
                self._logger.error("groups_not_loaded", exc_info=error)
                return
            self.is_loaded = True
            self.loaded_ms = self._context.wall_clock.now_ms()
            seconds = trio.current_time() - began
            if count:  # most of the many partitions have no groups and are not worth a line
                groups = len(self.coordinator.groups)
                self._logger.info("groups_loaded", groups=groups, records=count, seconds=round(seconds, 3))
            self._context.counts.group_loads += 1
            self._context.counts.group_load_seconds += seconds
            self._context.end_turn()

    def end(self) -> None:
        """Stops coordinating. Parked requests are refused, and their clients look for the new coordinator."""
        self._is_over = True
        self._loading.cancel()
        if self._alarm is not None:
            self._alarm.on_expired = None
        error = not_coordinator()
        for waiter in self.coordinator.waiters():
            waiter.refuse(error)
        if self.is_loaded and self.coordinator.groups:
            self._logger.info("groups_unloaded", groups=len(self.coordinator.groups))

    async def _replay(self) -> int:
        """Replays the log, and returns how many records it has.

        Only the last record of each key counts, as with compaction. Most records are offsets that were committed again
        later, and are not decoded.
        """
        log, count = self.replica.log, 0
        last: dict[bytes, bytes | None] = {}
        offset, end = log.log_start, log.log_end
        while offset < end:
            before, data = offset, self._read_intact(offset, end)
            if data is None:
                await self._context.repair(self.replica, offset)
                data = self._read(offset, end)
            elif not data:
                break
            for position, header in iterate(data):
                if offset < header.next_offset <= end:
                    offset = header.next_offset
                if not header.is_control:
                    self._keep_last(data[position : position + header.size], header, last)
                    count += header.record_count
            if offset <= before:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {before} is corrupt")
            await trio.lowlevel.checkpoint()
        for number, (key, value) in enumerate(last.items()):
            self._replay_record(key, value)
            if number % LOAD_RECORDS == 0:
                await trio.lowlevel.checkpoint()
        return count

    def _read(self, start: int, end: int) -> memoryview:
        found = self.replica.log.read(start, LOAD_BYTES, end, at_least_one=True, passes_empty=True)
        return memoryview(b"" if found is None else found.read())

    def _read_intact(self, start: int, end: int) -> memoryview | None:
        """Returns the next batches between the two offsets, or None if one of them is corrupt."""
        try:
            batches = self._read(start, end)
            for position, header in iterate(batches):
                if not start < header.next_offset <= end or crc_of(batches, position, header.size) != header.crc:
                    return None
                start = header.next_offset
        except KafkaError:
            return None
        return batches

    def _keep_last(self, batch: memoryview, header: BatchHeader, last: dict[bytes, bytes | None]) -> None:
        try:
            if crc_of(batch, 0, header.size) != header.crc:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "its checksum is wrong")
            keep_last(open_body(batch, header), header.record_count, last)
        except KafkaError as error:
            # One group may miss something. Without the other groups the damage would be larger.
            self._logger.error("group_record_skipped", offset=header.base_offset, reason=str(error))

    def _replay_record(self, key: bytes, value: bytes | None) -> None:
        try:
            decoded = decode_record(key, value)
        except KafkaError as error:
            self._logger.error("group_record_skipped", key=key.hex(), reason=str(error))
            return
        if decoded is not None:
            self.coordinator.replay(decoded)

    # requests and events

    def ask(self, waiter: Waiter, call: Call) -> None:
        """Calls `call` with the coordinator. The waiter gets a response or a refusal, now or later."""
        try:
            try:
                call(self.coordinator, self._moment())
            except KafkaError as error:
                self.coordinator.output.refuse(waiter, error)
            self._carry_out()
        except Exception:
            self._restart(self)
            raise

    def on_topic_deleted(self, topic: TopicSpec) -> None:
        """Schedules the removal of the topic's offsets. There may be many, so it begins with the next alarm."""
        self.coordinator.offsets.removal.on_topic_deleted(topic.id, topic.name)
        if self.is_loaded:
            self._set_alarm()

    def _on_alarm(self) -> None:
        """Calls the coordinator, because its next deadline has come."""
        self._alarm = None
        try:
            self.coordinator.on_deadline(self._moment())
            self._carry_out()
        except Exception as error:
            self._restart(self)
            if isinstance(error, AssertionError):
                raise
            self._logger.error("groups_restarted", exc_info=error)
        else:
            self._context.end_turn()

    # output

    def _carry_out(self) -> None:
        output = self.coordinator.output.take()
        if not self._context.is_sure_to_lead(self.replica):
            _require_commit(output)
        _send(output.responses_at_once)
        try:
            is_appended = not output.records or self._append(output.records)
        except Exception:
            _refuse(output.responses, not_coordinator())
            raise
        if not is_appended:
            _refuse(output.responses, not_coordinator())
        elif output.responses:
            self._respond_when_committed(output.responses)
        self._set_alarm()

    def _append(self, records: Sequence[GroupRecord]) -> bool:
        replica = self.replica
        if self._is_over or not replica.is_recovered_leader:
            return False
        now_ms = self._context.wall_clock.now_ms()
        base = replica.log.log_end
        encoded = (Record(base + place, now_ms, *encode_record(record)) for place, record in enumerate(records))
        batch = build_batch(encoded, base_offset=base, leader_epoch=self.epoch)
        try:
            replica.append(batch, read_header(batch))
        except KafkaError:
            # If the disk failed, the replica is offline and this partition has ended. Otherwise the partition is loaded
            # again, because the log lacks what the coordinator has just decided.
            if replica.offline_reason is None:
                self._restart(self)
            return False
        self._context.on_appended(replica)
        return True

    def _respond_when_committed(self, responses: Sequence[PendingResponse]) -> None:
        needed = self.replica.log.log_end
        if self.replica.high_watermark >= needed:
            _send(responses)
            return
        waiting = _Committing(responses)
        self.replica.wait_until_committed(needed, waiting)
        self._context.deadlines.add(trio.current_time() + self._context.commit_seconds_max(), waiting)

    def _set_alarm(self) -> None:
        deadline = self.coordinator.deadline
        if self._is_over or deadline == math.inf or (self._alarm is not None and self._alarm.deadline <= deadline):
            return
        if self._alarm is not None:
            self._alarm.on_expired = None
        self._alarm = Timer(deadline, self._on_alarm)
        self._context.deadlines.add(deadline, self._alarm)

    def _moment(self) -> Moment:
        return Moment(trio.current_time(), self._context.wall_clock.now_ms())


def _require_commit(output: CoordinatorOutput) -> None:
    """Makes all responses wait for a commit, because another SPU may already coordinate the groups.

    Even a response that changes nothing waits for the commit of a record that was appended after the request. The
    commit proves that there was no other leader at the time of the request.
    """
    output.responses += output.responses_at_once
    output.responses_at_once = []
    if output.responses and not output.records:
        output.append(BARRIER)


def _send(responses: Sequence[PendingResponse]) -> None:
    for response in responses:
        response.send()


def _refuse(responses: Sequence[PendingResponse], error: KafkaError) -> None:
    for response in responses:
        response.waiter.refuse(error)


class _Committing:
    """Responses that wait for the commit of their records."""

    __slots__ = ("_responses", "done")

    def __init__(self, responses: Sequence[PendingResponse]) -> None:
        self._responses = responses
        self.done = False

    def on_acknowledged(self) -> None:
        if not self.done:
            self.done = True
            _send(self._responses)

    def on_refused(self, error: KafkaError) -> None:
        self._refuse(not_coordinator())

    def on_deadline(self) -> None:
        self._refuse(
            KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the followers of __consumer_offsets did not keep up")
        )

    def _refuse(self, error: KafkaError) -> None:
        if not self.done:
            self.done = True
            _refuse(self._responses, error)
