"""The transactional ids of one coordinator: their states, the work on their markers, and their deadlines."""

import heapq
import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from tailrace.broker.coordination.coordinator_output import CoordinatorOutput
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.transactions.common.client_of_transactions import Client
from tailrace.broker.transactions.common.marker_work import MarkerWork
from tailrace.broker.transactions.common.transaction_counts import TransactionCounts
from tailrace.broker.transactions.common.transaction_records import TransactionRecord
from tailrace.broker.transactions.common.transaction_settings import TransactionSettings
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.transaction_records.transaction_log import TransactionLogKey

from . import transaction_state as states
from .transaction_state import Transaction

CHECK_SECONDS_MAX = 3600.0
"""How often an idle transactional id is checked for its expiry, as in Kafka. The setting may have changed."""
_STALE_ALARMS_MIN = 64


class TransactionalId:
    __slots__ = ("alarm", "client", "connection", "deadline", "transaction", "transactional_id", "unwritten")

    def __init__(self, transactional_id: str, transaction: Transaction) -> None:
        self.transactional_id = transactional_id
        self.transaction = transaction
        self.unwritten: set[TopicPartition] = set()
        """The partitions whose markers are not written yet, while the transaction is ending."""
        self.client: Client | None = None
        """The newest client that used the id; None if this coordinator has seen none. It is not in the log."""
        self.connection = -1
        """The number of the newest connection that used the id; -1 if this coordinator has seen none."""
        self.deadline = math.inf
        """The time, by Trio's clock, at which the open transaction times out, or at which to check the idle id."""
        self.alarm = math.inf
        """The time of the one valid alarm in the table's heap, which may be before the deadline."""

    def see(self, client: Client | None) -> None:
        """Notes that the client uses the id."""
        if client is not None and client.connection >= self.connection:
            self.client, self.connection = client, client.connection


class TransactionTable:
    def __init__(
        self,
        settings: Callable[[], TransactionSettings],
        counts: TransactionCounts,
        epoch: int,
        send_markers: Callable[[MarkerWork], None],
    ) -> None:
        self.settings = settings
        self.counts = counts
        self.output = CoordinatorOutput[TransactionRecord]()
        self.ids: dict[str, TransactionalId] = {}
        self.partition_count = 0
        """How many partitions all open and ending transactions have together."""
        self._epoch = epoch
        self._send_markers = send_markers
        self._alarms: list[tuple[float, int, TransactionalId]] = []
        """A heap of times, with a number that orders equal ones."""
        self._sequence = count()

    # states

    def put_stored(self, record: TransactionRecord) -> None:
        """Applies a record of the log."""
        name = record.key.transactional_id
        replaced = self.ids.pop(name, None)
        if replaced is not None:
            self.partition_count -= len(replaced.transaction.partitions)
        if record.value is not None:
            entry = TransactionalId(name, states.from_value(record.value))
            self.ids[name] = entry
            self.partition_count += len(entry.transaction.partitions)

    def on_loaded(self, moment: Moment) -> None:
        """Goes on with everything that the log has not finished."""
        for entry in self.ids.values():
            self._set_deadline(entry, moment)
            if entry.transaction.state.is_ending:
                self._write_markers(entry, moment)

    def add(self, transactional_id: str, transaction: Transaction, moment: Moment) -> TransactionalId:
        entry = TransactionalId(transactional_id, transaction)
        self.ids[transactional_id] = entry
        self.apply(entry, transaction, moment)
        return entry

    def apply(self, entry: TransactionalId, transaction: Transaction, moment: Moment) -> None:
        """Puts the id into a new state, which goes to the log, and begins to write markers if it is ending."""
        goes_on = entry.transaction.state is transaction.state is State.ONGOING
        self.partition_count += len(transaction.partitions) - len(entry.transaction.partitions)
        entry.transaction = transaction
        self.output.append(states.to_record(entry.transactional_id, transaction))
        if not goes_on:  # a wall clock that jumped must not change the deadline of an open transaction
            self._set_deadline(entry, moment)
        if transaction.state.is_ending:
            self._write_markers(entry, moment)

    def remove(self, entry: TransactionalId) -> None:
        """Removes an idle id, also from the log."""
        del self.ids[entry.transactional_id]
        self.output.append(TransactionRecord(TransactionLogKey(entry.transactional_id), None))

    # markers

    def _write_markers(self, entry: TransactionalId, moment: Moment) -> None:
        entry.unwritten = set(entry.transaction.partitions)
        if entry.unwritten:
            self.output.when_committed(partial(self._send, entry.transactional_id, entry.transaction))
        else:
            self._complete(entry, moment)

    def _send(self, transactional_id: str, transaction: Transaction, moment: Moment) -> None:
        """Has the markers sent, after the decision has been committed. Nothing but them changes the state any more."""
        work = MarkerWork(
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            is_commit=transaction.state is State.PREPARE_COMMIT,
            coordinator_epoch=self._epoch,
            transaction_version=transaction.version,
            partitions=transaction.partitions,
        )
        self._send_markers(work)

    def on_written(self, entry: TransactionalId, partitions: Iterable[TopicPartition], moment: Moment) -> bool:
        """Notes that partitions have their markers. Returns whether that has completed the ending transaction."""
        entry.unwritten.difference_update(partitions)
        if entry.unwritten:
            return False
        self._complete(entry, moment)
        return True

    def _complete(self, entry: TransactionalId, moment: Moment) -> None:
        if entry.transaction.state is State.PREPARE_COMMIT:
            self.counts.committed += 1
        elif entry.transaction.partitions:
            self.counts.aborted += 1
        self.apply(entry, states.complete(entry.transaction, moment.now_ms), moment)

    # deadlines

    @property
    def deadline(self) -> float:
        """The time at which to call `take_due`: perhaps too early, never too late."""
        return self._alarms[0][0] if self._alarms else math.inf

    def take_due(self, now: float) -> list[TransactionalId]:
        """Returns the ids whose deadlines have come.

        An id gets its next deadline with its next state, or by `look_later`.
        """
        due = []
        while self._alarms and self._alarms[0][0] <= now:
            alarm, _, entry = heapq.heappop(self._alarms)
            if not self._is_valid(alarm, entry):
                continue
            entry.alarm = math.inf
            if entry.deadline <= now:
                due.append(entry)
            else:
                self._schedule(entry)
        return due

    def look_later(self, entry: TransactionalId, moment: Moment) -> None:
        """Sets the deadline of an id that did not change at its deadline."""
        self._set_deadline(entry, moment)

    def _set_deadline(self, entry: TransactionalId, moment: Moment) -> None:
        transaction = entry.transaction
        if transaction.state is State.ONGOING:
            left_ms = transaction.started_ms + transaction.timeout_ms - moment.now_ms
            entry.deadline = moment.now + min(max(left_ms, 0), transaction.timeout_ms) / 1000
        elif transaction.state.is_ending:
            entry.deadline = math.inf
        else:
            left_ms = transaction.updated_ms + self.settings().id_expiration_ms - moment.now_ms
            entry.deadline = moment.now + min(max(left_ms / 1000, 0.0), CHECK_SECONDS_MAX)
        self._schedule(entry)

    def _schedule(self, entry: TransactionalId) -> None:
        """Sets an earlier alarm if the deadline has become earlier. A later deadline needs no new alarm."""
        if entry.deadline < entry.alarm:
            entry.alarm = entry.deadline
            heapq.heappush(self._alarms, (entry.deadline, next(self._sequence), entry))
            if len(self._alarms) > 2 * len(self.ids) + _STALE_ALARMS_MIN:
                self._alarms = [each for each in self._alarms if self._is_valid(each[0], each[2])]
                heapq.heapify(self._alarms)

    def _is_valid(self, alarm: float, entry: TransactionalId) -> bool:
        """Returns False if an earlier alarm was set since, or if the id was removed."""
        return entry.alarm == alarm and self.ids.get(entry.transactional_id) is entry
