"""A coordinator of transactions without an SPU: its log is a list, tests write markers and let time pass."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from grouping import Asked

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.transactions.common.client_of_transactions import Client
from tailrace.broker.transactions.common.marker_work import MarkerWork
from tailrace.broker.transactions.common.producer_id_needed import ProducerIdNeededError
from tailrace.broker.transactions.common.transaction_counts import TransactionCounts
from tailrace.broker.transactions.common.transaction_records import TransactionRecord, decode_record, encode_record
from tailrace.broker.transactions.common.transaction_settings import TransactionSettings
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator
from tailrace.broker.transactions.coordinator.transaction_state import Transaction
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest

NAME = "orders"
TIMEOUT_MS = 60_000
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))

Call = Callable[[TransactionCoordinator, Asked, Moment], Any]


@dataclass
class TransactionWorld:
    """By default all that the coordinator appends is committed at once, and markers wait for `write_markers`."""

    settings: TransactionSettings = field(default_factory=TransactionSettings)
    cluster: Cluster = field(default_factory=Cluster)
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    now: float = 100.0
    now_ms: int = 1_700_000_000_000
    epoch: int = 1
    commits: bool = True
    """Whether what is appended is committed at once; otherwise it waits for `commit`."""
    committed: int = 0
    """How many records of the log are committed."""
    markers: list[MarkerWork] = field(default_factory=list)
    """The markers to write."""
    counts: TransactionCounts = field(default_factory=TransactionCounts)

    def __post_init__(self) -> None:
        self.ids = count(1000)
        self._uncommitted: list[Callable[[], None]] = []
        self.coordinator = self._new()

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.now_ms)

    # what happens

    def ask(self, call: Call) -> Asked:
        asked = Asked()
        call(self.coordinator, asked, self.moment)
        self.carry_out()
        return asked

    def carry_out(self) -> None:
        output = self.coordinator.output.take()
        assert not output.responses_at_once, "a response waits for the commit of the state that is its reason"
        self.log += [encode_record(record) for record in output.records]
        self._uncommitted += [pending.send for pending in output.responses]
        self._uncommitted += [lambda action=action: action(self.moment) for action in output.actions]  # type: ignore[misc]
        if self.commits:
            self.commit()

    def commit(self) -> None:
        while self._uncommitted:
            self._uncommitted.pop(0)()
            if self.coordinator.output:
                self.carry_out()
        self.committed = len(self.log)

    def write_markers(self) -> None:
        """Writes all markers that are due."""
        while self.markers:
            work = self.markers.pop(0)
            self.report(work, work.partitions)

    def report(self, work: MarkerWork, partitions: Iterable[TopicPartition]) -> None:
        self.coordinator.on_markers_written(
            work.transactional_id, work.producer_id, work.producer_epoch, partitions, self.moment
        )
        self.carry_out()

    def let_pass(self, seconds: float) -> None:
        """Lets time pass by both clocks, and calls the coordinator at each of its deadlines."""
        end = self.now + seconds
        while self.coordinator.deadline <= end:
            self._move_to(max(self.coordinator.deadline, self.now))
            self.coordinator.on_deadline(self.moment)
            self.carry_out()
            if self.coordinator.deadline <= self.now:
                self._move_to(math.nextafter(self.now, math.inf))
        self._move_to(end)

    def _move_to(self, now: float) -> None:
        self.now_ms += round((now - self.now) * 1000)
        self.now = now

    def move_coordinator(self, records: int | None = None) -> list[Asked]:
        """Lets another coordinator load the log, or its first records. Returns the parked requests of the old one."""
        refused = self.coordinator.waiters()
        self._uncommitted.clear()  # the hosting refuses these waiters
        self.markers.clear()
        del self.log[len(self.log) if records is None else records :]
        self.epoch += 1
        self.coordinator = self._new()
        for record in last_records(self.log):
            self.coordinator.replay(record)
        self.coordinator.on_loaded(self.moment)
        self.carry_out()
        return refused  # type: ignore[return-value]

    def _new(self) -> TransactionCoordinator:
        return TransactionCoordinator(lambda: self.settings, self.cluster, self.counts, self.epoch, self.markers.append)

    # what the tests look at

    @property
    def state(self) -> State:
        return self.transaction().state

    def transaction(self, name: str = NAME) -> Transaction:
        return self.coordinator.ids[name].transaction

    # requests

    def init(
        self,
        expected: tuple[int, int] = (-1, -1),
        *,
        name: str = NAME,
        timeout_ms: int = TIMEOUT_MS,
        connection: int = 1,
        version: int = 5,
    ) -> Asked:
        request = InitProducerIdRequest(name, timeout_ms, *expected)

        def call(coordinator: TransactionCoordinator, asked: Asked, moment: Moment) -> None:
            arguments = request, version, client(connection)
            try:
                coordinator.init_producer(*arguments, None, asked, moment)
            except ProducerIdNeededError:
                coordinator.init_producer(*arguments, next(self.ids), asked, moment)

        return self.ask(call)

    def begin(self, *, name: str = NAME) -> tuple[int, int]:
        """Initializes a producer, and returns its id and epoch."""
        return producer_of(self.init(name=name))

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        name: str = NAME,
        version: int = 3,
        connection: int | None = 1,
        verify_only: bool = False,
    ) -> Asked:
        return self.ask(
            lambda coordinator, asked, moment: coordinator.add_partitions(
                name,
                *producer,
                frozenset(partitions),
                verify_only=verify_only,
                version=version,
                client=None if connection is None else client(connection),
                waiter=asked,
                moment=moment,
            )
        )

    def add_v2(self, producer: tuple[int, int], *partitions: TopicPartition, name: str = NAME) -> Asked:
        """Adds partitions as the leader of a partition does for a client whose epoch each end increases."""
        return self.add(producer, *partitions, name=name, version=5, connection=None)

    def verify(self, producer: tuple[int, int], *partitions: TopicPartition) -> Asked:
        return self.add(producer, *partitions, version=4, connection=None, verify_only=True)

    def add_offsets(self, producer: tuple[int, int], group_id: str = "g", version: int = 3) -> Asked:
        request = AddOffsetsToTxnRequest(NAME, *producer, group_id)
        return self.ask(
            lambda coordinator, asked, moment: coordinator.add_offsets(request, version, client(1), asked, moment)
        )

    def end(
        self,
        producer: tuple[int, int],
        *,
        commit: bool = True,
        name: str = NAME,
        version: int = 3,
        connection: int = 1,
    ) -> Asked:
        request = EndTxnRequest(name, *producer, commit)

        def call(coordinator: TransactionCoordinator, asked: Asked, moment: Moment) -> None:
            arguments = request, version, client(connection)
            try:
                coordinator.end(*arguments, None, asked, moment)
            except ProducerIdNeededError:
                coordinator.end(*arguments, next(self.ids), asked, moment)

        return self.ask(call)

    def end_v2(self, producer: tuple[int, int], *, commit: bool = True, name: str = NAME) -> Asked:
        return self.end(producer, commit=commit, name=name, version=5)

    def listed(self, **filters: Any) -> list[str]:
        return [
            each.transactional_id for each in self.coordinator.list(ListTransactionsRequest(**filters), self.moment)
        ]


def client(connection: int) -> Client:
    return Client(connection, "a-client", "/192.0.2.1")


def producer_of(asked: Asked) -> tuple[int, int]:
    """Returns the producer id and the epoch in a response."""
    assert asked.error is None, asked.error
    return asked.reply.producer_id, asked.reply.producer_epoch


def error_of(asked: Asked) -> ErrorCode | None:
    """Returns the error of a request, or None if it waits or has succeeded."""
    if asked.error is not None:
        return asked.error.code
    if isinstance(asked.reply, dict):
        errors = set(asked.reply.values()) - {ErrorCode.NONE}
        assert len(errors) <= 1
        return next(iter(errors), None)
    return None


def last_records(log: Iterable[tuple[bytes, bytes | None]]) -> list[TransactionRecord]:
    """Returns the last record of each key, as a coordinator loads them."""
    decoded = [decode_record(key, value) for key, value in dict(log).items()]
    return [record for record in decoded if record is not None]
