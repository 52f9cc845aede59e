"""A led partition of an internal topic, with its coordinator between clients and the log.

The coordinator's records are appended first. Its responses are sent and its actions taken when the records are
committed. When this SPU stops leading, the coordinator is discarded: the next leader loads the same state from its log.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic

import trio

from tailrace.broker.replicas.deadlines import Timer
from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.descriptors import retry_when_out_of_files
from tailrace.runtime.logs import FilteringBoundLogger

from .coordination_context import CoordinationContext
from .coordination_names import CoordinationNames
from .coordinator_kind import C, CoordinatorKind, TransactionalCoordinator
from .coordinator_output import Action, CoordinatorOutput, PendingResponse, RecordProducer, Waiter
from .folded_records import FoldedRecords
from .last_records import LastRecords
from .moment import Moment

LOAD_RECORDS = 1000
"""How many records are replayed before other tasks run."""


class CoordinatedPartition(Generic[C]):
    def __init__(
        self,
        replica: Replica,
        context: CoordinationContext,
        kind: CoordinatorKind[C],
        restart: Callable[["CoordinatedPartition[C]"], None],
    ) -> None:
        """Raises OSError if the modules of the coordinator cannot be imported at the moment."""
        self.replica = replica
        self.epoch = replica.spec.epoch
        """The epoch of the leadership, which is also that of the coordinator."""
        self.is_loaded = False
        self.is_over = False
        """Whether this SPU does not coordinate with this object any more."""
        self.loaded_ms = -1
        """The time at which the partition was loaded, by the wall clock; -1 before."""
        self.failure: str | None = None
        """Why the partition could not be loaded; None if it could."""
        self._context = context
        self._kind = kind
        self._format = kind.record_format()
        self._restart = restart
        """Discards this object and loads another one from the log."""
        self._logger: FilteringBoundLogger = context.logger.bind(
            topic=replica.topic, partition=replica.partition, epoch=self.epoch
        )
        self._loading = trio.CancelScope()
        self._alarm: Timer | None = None
        self._markers: dict[int, bool] = {}
        """The producers whose transactions ended while the log was being loaded, and whether they committed.

        A producer whose transaction has ended begins no other one here before the log is loaded.
        """
        self.coordinator = kind.new_coordinator(self)

    # life

    async def load(self) -> None:
        """Replays the whole log. After that the partition accepts requests."""
        if self.is_over:
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
                self.replica.go_offline(f"its {self._kind.names.many} could not be loaded: {error}")
                return
            except Exception as error:
                # The next leader may fail in the same way. If this replica went offline, one SPU after the other would.
                self.failure = str(error)
                self._kind.on_not_loaded(self._logger, exc_info=error)
                return
            self.is_loaded = True
            self.loaded_ms = self._context.wall_clock.now_ms()
            self._kind.on_loaded(self._logger, self.coordinator, count, trio.current_time() - began)
            self._context.end_turn()

    def end(self) -> None:
        """Stops coordinating. Parked requests are refused, and their clients look for the new coordinator."""
        self.is_over = True
        self._loading.cancel()
        if self._alarm is not None:
            self._alarm.on_expired = None
        error = self._kind.names.not_coordinator()
        for waiter in self.coordinator.waiters():
            waiter.refuse(error)
        if self.is_loaded:
            self._kind.on_unloaded(self._logger, self.coordinator)

    async def _replay(self) -> int:
        """Replays the log, and returns how many records it has."""
        last = LastRecords(self.replica, self._context.repair, self._skip_batch)
        await last.read()
        records = last.records
        for number, (key, value) in enumerate(records.by_key.items()):
            self._replay_record(key, value)
            if number % LOAD_RECORDS == 0:
                await trio.lowlevel.checkpoint()
        await self._replay_pending(records)
        return records.count

    async def _replay_pending(self, records: FoldedRecords) -> None:
        """Replays the records of open transactions, and ends those whose markers were appended meanwhile."""
        coordinator = self._transactional
        if coordinator is None:
            return
        for number, (producer_id, key, value) in enumerate(records.pending):
            record = self._decode(key, value)
            if record is not None:
                coordinator.replay_pending(producer_id, record)
            if number % LOAD_RECORDS == 0:
                await trio.lowlevel.checkpoint()
        markers, self._markers = self._markers, {}
        for producer_id, is_commit in markers.items():
            coordinator.on_marker(producer_id, is_commit=is_commit)

    def _skip_batch(self, offset: int, error: KafkaError) -> None:
        self._kind.on_record_skipped(self._logger, offset=offset, reason=str(error))

    def _replay_record(self, key: bytes, value: bytes | None) -> None:
        decoded = self._decode(key, value)
        if decoded is not None:
            self.coordinator.replay(decoded)

    def _decode(self, key: bytes, value: bytes | None) -> Any:
        """Returns the record, or None if it is of a type that is not known or cannot be decoded."""
        try:
            return self._format.decode(key, value)
        except KafkaError as error:
            self._kind.on_record_skipped(self._logger, key=key.hex(), reason=str(error))
            return None

    @property
    def _transactional(self) -> TransactionalCoordinator | None:
        """The coordinator, if some of its records belong to transactions."""
        coordinator: object = self.coordinator
        return coordinator if isinstance(coordinator, TransactionalCoordinator) else None

    # requests and events

    def ask(self, waiter: Waiter, call: Callable[[C, Moment], None]) -> None:
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

    def tell(self, call: Callable[[C, Moment], None]) -> bool:
        """Calls `call` with the coordinator because of an event that is no request. It must not raise KafkaError.

        Returns False if the event has no effect, because the coordinator is not loaded, has failed, or this SPU does
        not coordinate with it any more. Whatever calls this ends its turn afterwards.
        """
        if not self.is_loaded or self.is_over:
            return False
        return self._do(partial(call, self.coordinator))

    def on_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Ends the transaction of the producer, because its marker was appended to the log just now.

        Whatever calls this ends its turn afterwards.
        """
        coordinator = self._transactional
        if self.is_over or coordinator is None:
            return
        if self.is_loaded:
            self._do(lambda moment: coordinator.on_marker(producer_id, is_commit=is_commit))
        else:
            self._markers.setdefault(producer_id, is_commit)

    def update_alarm(self) -> None:
        """Notes that the coordinator's deadline may have changed. What is due is done at the next alarm."""
        if self.is_loaded:
            self._set_alarm()

    def _on_alarm(self) -> None:
        """Calls the coordinator, because its next deadline has come."""
        self._alarm = None
        if self._do(self.coordinator.on_deadline):
            self._context.end_turn()

    def _do(self, *actions: Action) -> bool:
        """Takes the actions of the coordinator, and carries out what they decide. Returns False if one of them failed.

        No client waits for them, so a bug of ours is logged, and the coordinator is loaded again from its log.
        """
        try:
            moment = self._moment()
            for action in actions:
                action(moment)
            self._carry_out()
        except Exception as error:
            self._restart(self)
            if isinstance(error, AssertionError):
                raise
            self._kind.on_restarted(self._logger, error)
            return False
        return True

    # output

    def _carry_out(self) -> None:
        output = self.coordinator.output.take()
        if not self._context.is_sure_to_lead(self.replica):
            _require_commit(output, self._format.barrier)
        _send(output.responses_at_once)
        try:
            is_appended = not output.records or self._append(output.records, output.producer)
        except Exception:
            _refuse(output.responses, self._kind.names.not_coordinator())
            raise
        if not is_appended:
            _refuse(output.responses, self._kind.names.not_coordinator())
        else:
            end = self.replica.log.log_end
            if output.responses:
                self._respond_when_committed(output.responses, end)
            if output.actions:
                self._act_when_committed(output.actions, end)
        self._set_alarm()

    def _append(self, records: Sequence[Any], producer: RecordProducer | None) -> bool:
        replica = self.replica
        if self.is_over or not replica.is_recovered_leader:
            return False
        now_ms = self._context.wall_clock.now_ms()
        base = replica.log.log_end
        encode = self._format.encode
        encoded = (Record(base + place, now_ms, *encode(record)) for place, record in enumerate(records))
        if producer is None:
            batch = build_batch(encoded, base_offset=base, leader_epoch=self.epoch)
        else:
            batch = build_batch(
                encoded,
                base_offset=base,
                leader_epoch=self.epoch,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                is_transactional=True,
            )
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

    def _respond_when_committed(self, responses: Sequence[PendingResponse], end: int) -> None:
        if self.replica.high_watermark >= end:
            _send(responses)
            return
        waiting = _Committing(responses, self._kind.names)
        self.replica.wait_until_committed(end, waiting)
        self._context.deadlines.add(trio.current_time() + self._kind.commit_seconds_max(), waiting)

    def _act_when_committed(self, actions: Sequence[Action], end: int) -> None:
        """Takes the actions in a turn of their own, soon after everything before `end` is committed.

        What advances the high watermark is in the middle of its work, and the actions may append.
        """
        act = partial(self._act, actions, end)
        if self.replica.high_watermark >= end:
            self._call_soon(act)
        else:
            self.replica.wait_until_committed(end, _Acting(self, partial(self._call_soon, act)))

    def _call_soon(self, call: Callable[[], None]) -> None:
        """Calls back in a task of its own: a deadline may be noticed some milliseconds late, see `readiness`."""
        self._context.nursery.start_soon(_call, call)

    def _act(self, actions: Sequence[Action], end: int) -> None:
        if self.is_over:
            return
        if self.replica.high_watermark < end:  # all that waited was refused, because this SPU is isolated
            self._act_when_committed(actions, end)
        elif self._do(*actions):
            self._context.end_turn()

    def _set_alarm(self) -> None:
        deadline = self.coordinator.deadline
        if self.is_over or deadline == math.inf or (self._alarm is not None and self._alarm.deadline <= deadline):
            return
        if self._alarm is not None:
            self._alarm.on_expired = None
        self._alarm = Timer(deadline, self._on_alarm)
        self._context.deadlines.add(deadline, self._alarm)

    def _moment(self) -> Moment:
        return Moment(trio.current_time(), self._context.wall_clock.now_ms())


async def _call(call: Callable[[], None]) -> None:
    call()


def _require_commit(output: CoordinatorOutput[Any], barrier: Any) -> None:
    """Makes all responses wait for a commit, because another SPU may already coordinate.

    Even a response that changes nothing waits for the commit of a record that was appended after the request. The
    commit proves that there was no other leader at the time of the request. The same holds for actions.
    """
    output.responses += output.responses_at_once
    output.responses_at_once = []
    if (output.responses or output.actions) and not output.records:
        output.append(barrier)


def _send(responses: Sequence[PendingResponse]) -> None:
    for response in responses:
        response.send()


def _refuse(responses: Sequence[PendingResponse], error: KafkaError) -> None:
    for response in responses:
        response.waiter.refuse(error)


class _Committing:
    """Responses that wait for the commit of their records."""

    __slots__ = ("_names", "_responses", "done")

    def __init__(self, responses: Sequence[PendingResponse], names: CoordinationNames) -> None:
        self._responses = responses
        self._names = names
        self.done = False

    def on_acknowledged(self) -> None:
        if not self.done:
            self.done = True
            _send(self._responses)

    def on_refused(self, error: KafkaError) -> None:
        self._refuse(self._names.not_coordinator())

    def on_deadline(self) -> None:
        self._refuse(self._names.not_committed())

    def _refuse(self, error: KafkaError) -> None:
        if not self.done:
            self.done = True
            _refuse(self._responses, error)


class _Acting:
    """Actions that wait for the commit of their records, as long as the partition is coordinated here."""

    __slots__ = ("_look", "_partition")

    def __init__(self, partition: CoordinatedPartition[Any], look: Callable[[], None]) -> None:
        self._partition = partition
        self._look = look
        """Looks soon whether the records are committed."""

    @property
    def done(self) -> bool:
        return self._partition.is_over

    def on_acknowledged(self) -> None:
        self._look()

    def on_refused(self, error: KafkaError) -> None:
        self._look()
