"""One partition of the internal topic that is led here: its coordinator, between clients and the log.

What the coordinator decides is appended before anybody hears of it, and told when it is committed. When this SPU does
not lead any more, the coordinator is thrown away with everything it knew: the next leader reads the same from its log.
"""

import math
from collections.abc import Callable, Sequence

import trio
from structlog.typing import FilteringBoundLogger

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
from tailrace.runtime.descriptors import once_files_can_be_opened

from .group_context import GroupContext, not_coordinator

LOAD_BYTES = 1 << 18
LOAD_RECORDS = 1000
"""Read and replayed at a time; others get their turn in between."""

BARRIER = GroupRecord(OffsetCommitKey(group="", topic="", partition=-1), None)
"""Takes back what nobody ever committed."""

Call = Callable[[Coordinator, Moment], None]


class GroupPartition:
    def __init__(self, replica: Replica, context: GroupContext, restart: Callable[["GroupPartition"], None]) -> None:
        self.replica = replica
        self.epoch = replica.spec.epoch
        self.coordinator = Coordinator(context.settings, context.cluster, context.new_id, context.counts)
        self.is_loaded = False
        self.loaded_ms = -1
        """Since when requests are taken, by the wall clock."""
        self.failure: str | None = None
        """Why it could not be loaded."""
        self._context = context
        self._restart = restart
        """Throws this one away and loads another, from the log."""
        self._logger: FilteringBoundLogger = context.logger.bind(
            topic=replica.topic, partition=replica.partition, epoch=self.epoch
        )
        self._is_over = False
        self._loading = trio.CancelScope()
        self._alarm: Timer | None = None

    # life

    async def load(self) -> None:
        """Reads the log from its beginning to its end; afterwards requests are taken."""
        if self._is_over:
            return
        began = trio.current_time()
        with self._loading:
            try:
                count = await once_files_can_be_opened(self._replay)
                self.coordinator.on_loaded(self._moment())
                self._carry_out()
            except AssertionError:
                raise
            except (OSError, KafkaError) as error:
                # The others may have it whole, and one of them leads then.
                self.replica.go_offline(f"its groups were not loaded: {error}")
                return
            except Exception as error:
                # Whoever leads next may find the same: one SPU after the other would stop, with all that it does.
                self.failure = str(error)
                self._logger.error("groups_not_loaded", exc_info=error)
                return
            self.is_loaded = True
            self.loaded_ms = self._context.wall_clock.now_ms()
            seconds = trio.current_time() - began
            if count:  # most partitions have none, and there are many
                groups = len(self.coordinator.groups)
                self._logger.info("groups_loaded", groups=groups, records=count, seconds=round(seconds, 3))
            self._context.counts.group_loads += 1
            self._context.counts.group_load_seconds += seconds
            self._context.end_turn()

    def end(self) -> None:
        """Another leads now, or will: who waits here asks there."""
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
        """How many records there were.

        Of each key the last one counts, as compaction has it: most are offsets that were committed again since, and
        are not even looked into.
        """
        log, count = self.replica.log, 0
        last: dict[bytes, bytes | None] = {}
        offset, end = log.log_start, log.log_end
        while offset < end:
            before, data = offset, self._whole(offset, end)
            if data is None:
                await self._context.mend(self.replica, offset)
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
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {before} is damaged")
            await trio.lowlevel.checkpoint()
        for number, (key, value) in enumerate(last.items()):
            self._replay_record(key, value)
            if number % LOAD_RECORDS == 0:
                await trio.lowlevel.checkpoint()
        return count

    def _read(self, start: int, end: int) -> memoryview:
        found = self.replica.log.read(start, LOAD_BYTES, end, at_least_one=True, passes_empty=True)
        return memoryview(b"" if found is None else found.read())

    def _whole(self, start: int, end: int) -> memoryview | None:
        """The next batches between the two offsets, if they are what was written."""
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
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "its bytes are not those that were written")
            keep_last(open_body(batch, header), header.record_count, last)
        except KafkaError as error:
            # One group may lack something; without the others the damage would be larger.
            self._logger.error("group_record_skipped", offset=header.base_offset, reason=str(error))

    def _replay_record(self, key: bytes, value: bytes | None) -> None:
        try:
            decoded = decode_record(key, value)
        except KafkaError as error:
            self._logger.error("group_record_skipped", key=key.hex(), reason=str(error))
            return
        if decoded is not None:
            self.coordinator.replay(decoded)

    # what is asked

    def ask(self, waiter: Waiter, call: Call) -> None:
        """The waiter is answered or refused, now or later."""
        try:
            try:
                call(self.coordinator, self._moment())
            except KafkaError as error:
                self.coordinator.output.refuse(waiter, error)
            self._carry_out()
        except Exception:
            self._restart(self)
            raise

    def on_topic_gone(self, topic: TopicSpec) -> None:
        """There may be much to forget: it begins with the next alarm, or when all is loaded."""
        self.coordinator.offsets.removal.on_topic_deleted(topic.id, topic.name)
        if self.is_loaded:
            self._set_alarm()

    def _on_alarm(self) -> None:
        """The coordinator's next deadline has come."""
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

    # what is done about it

    def _carry_out(self) -> None:
        output = self.coordinator.output.take()
        if not self._context.is_sure_to_lead(self.replica):
            _confirm(output)
        _give(output.responses_at_once)
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
            # If the disk failed, the replica has gone offline, and this partition has ended with it. Else it begins
            # again with what the log says: what was just decided it does not have.
            if replica.offline_reason is None:
                self._restart(self)
            return False
        self._context.on_appended(replica)
        return True

    def _respond_when_committed(self, answers: Sequence[PendingResponse]) -> None:
        needed = self.replica.log.log_end
        if self.replica.high_watermark >= needed:
            _give(answers)
            return
        waiting = _Committing(answers)
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


def _confirm(output: CoordinatorOutput) -> None:
    """Others may coordinate the groups by now, and know better: nothing is answered, not even that a member is still
    one, before a record is committed that was appended after it was asked. Then there was no other leader before."""
    output.responses += output.responses_at_once
    output.responses_at_once = []
    if output.responses and not output.records:
        output.append(BARRIER)


def _give(answers: Sequence[PendingResponse]) -> None:
    for answer in answers:
        answer.send()


def _refuse(answers: Sequence[PendingResponse], error: KafkaError) -> None:
    for answer in answers:
        answer.waiter.refuse(error)


class _Committing:
    """Answers that wait until what they tell of is committed."""

    __slots__ = ("_answers", "done")

    def __init__(self, answers: Sequence[PendingResponse]) -> None:
        self._answers = answers
        self.done = False

    def on_acknowledged(self) -> None:
        if not self.done:
            self.done = True
            _give(self._answers)

    def on_refused(self, error: KafkaError) -> None:
        self._refuse(not_coordinator())

    def on_deadline(self) -> None:
        self._refuse(
            KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the replicas of the internal topic did not keep up")
        )

    def _refuse(self, error: KafkaError) -> None:
        if not self.done:
            self.done = True
            _refuse(self._answers, error)
