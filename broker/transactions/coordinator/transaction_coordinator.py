"""The coordinator of the transactional ids of one partition of `__transaction_state`.

It knows nothing but its log: a coordinator that replays the same records has the same ids in the same states. A request
is checked against the state of its id, which changes at once. The response waits until the record of the state is
committed, and so do the markers. A request that comes too early waits until the transaction before has ended.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.transactions.common.client_of_transactions import Client
from tailrace.broker.transactions.common.marker_work import MarkerWork
from tailrace.broker.transactions.common.producer_id_needed import ProducerIdNeededError
from tailrace.broker.transactions.common.transaction_counts import TransactionCounts
from tailrace.broker.transactions.common.transaction_records import TransactionRecord
from tailrace.broker.transactions.common.transaction_settings import TransactionSettings
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.coordinators import GROUPS_TOPIC, partition_of
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages import describe_transactions, list_transactions
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

from . import transaction_report
from . import transaction_state as states
from .parked_requests import Asked, ParkedRequests
from .transaction_state import EPOCH_BUMPED, EPOCH_KEPT, EPOCH_USED_MAX, NONE, EndStep, Producer, Transaction
from .transaction_table import TransactionalId, TransactionTable

IDS_MAX = 20_000
"""How many transactional ids one coordinator remembers. `__transaction_state` has 50 coordinators by default."""
ID_BYTES_MAX = 32_000
"""The longest transactional id, in UTF-8. It fits into the 32 767 bytes of a record field."""
OPEN_PARTITIONS_MAX = 500_000
"""How many partitions all open transactions of one coordinator have together."""
PARTITIONS_MAX = 20_000
"""How many partitions a transaction may have. Their record has to fit into a batch, and into one request of markers."""

EPOCH_BUMPED_FROM = 5
"""The first version of EndTxn and of AddPartitionsToTxn whose clients get a new epoch at each end of a transaction."""
FENCED_FROM_OF_INIT = 4
"""The first version of InitProducerId that reports PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH."""
FENCED_FROM = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that reports PRODUCER_FENCED."""


class _Added(NamedTuple):
    """What an AddPartitionsToTxn adds, or an AddOffsetsToTxn."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    version: int
    client: Client | None


class TransactionCoordinator:
    """Handles each request by responding to its waiter, now or later.

    A request that is refused gets a KafkaError as its response. Only ProducerIdNeededError is raised, before anything
    has changed: call again with a new producer id as `spare_id`. A request that had to wait may get it as its refusal.
    """

    def __init__(
        self,
        settings: Callable[[], TransactionSettings],
        cluster: Cluster,
        counts: TransactionCounts,
        epoch: int,
        send_markers: Callable[[MarkerWork], None],
    ) -> None:
        """`send_markers` gets work whose decision is committed. The sender repeats what is not written, until this
        coordinator ends, and reports progress to `on_markers_written`."""
        self._settings = settings
        self._cluster = cluster
        self._counts = counts
        self._table = TransactionTable(settings, counts, epoch, send_markers)
        self._parked = ParkedRequests()
        self.output = self._table.output
        self.ids = self._table.ids
        """The transactional ids by name, for reports. Nothing else changes them."""

    # state

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`: perhaps too early, never too late."""
        return min(self._table.deadline, self._parked.deadline)

    def waiters(self) -> list[Waiter]:
        """Takes out all parked requests, because this coordinator ends."""
        return [asked.waiter for asked in self._parked.take_all()]

    # events

    def replay(self, record: TransactionRecord) -> None:
        """Applies the next record of the log while the log is loaded."""
        self._table.put_stored(record)

    def on_loaded(self, moment: Moment) -> None:
        """Begins to coordinate. Markers of transactions whose end is decided are sent again."""
        self._table.on_loaded(moment)

    def on_deadline(self, moment: Moment) -> None:
        """Refuses requests that have waited too long, aborts transactions at their timeouts, and removes idle ids."""
        for asked in self._parked.take_due(moment.now):
            self._counts.refused_as_concurrent += 1
            self.output.respond(asked.waiter, _concurrent())
        for entry in self._table.take_due(moment.now):
            transaction = entry.transaction
            if transaction.state is State.ONGOING:
                self._counts.timed_out += 1
                self._table.apply(entry, states.fence(transaction, moment.now_ms), moment)
            elif transaction.updated_ms + self._settings().id_expiration_ms <= moment.now_ms:
                self._counts.expired_ids += 1
                self._table.remove(entry)
            else:
                self._table.look_later(entry, moment)

    # InitProducerId

    def init_producer(
        self,
        request: InitProducerIdRequest,
        version: int,
        client: Client,
        spare_id: int | None,
        waiter: Waiter,
        moment: Moment,
    ) -> None:
        """Gives a producer its id and next epoch. Responds with an InitProducerIdResponse."""
        handle = partial(self._init_producer, request, client, spare_id)
        self._handle(Asked(waiter, handle, version >= FENCED_FROM_OF_INIT), moment)

    def _init_producer(
        self, request: InitProducerIdRequest, client: Client, spare_id: int | None, asked: Asked, moment: Moment
    ) -> None:
        name = request.transactional_id or ""
        _check_name(name)
        timeout_ms = request.transaction_timeout_ms
        if not 0 < timeout_ms <= self._settings().timeout_ms_max:
            message = f"the timeout of a transaction must be between 1 and {self._settings().timeout_ms_max} ms"
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, message)
        if (request.producer_id == NONE) != (request.producer_epoch == NONE):
            message = "a producer id needs an epoch, and an epoch needs a producer id"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        expected = None if request.producer_id == NONE else Producer(request.producer_id, request.producer_epoch)
        entry = self.ids.get(name)
        if spare_id is None and (entry is None or entry.transaction.epoch >= EPOCH_USED_MAX - 1):
            raise ProducerIdNeededError  # the epoch may increase by two, if an open transaction has to be aborted first
        if entry is None:
            assert spare_id is not None
            entry = self._add(name, states.first(spare_id, timeout_ms, moment.now_ms), moment)
        elif entry.transaction.state.is_ending:
            self._park(entry, asked, moment)
            return
        else:
            states.check_may_init(entry.transaction, expected)
            if entry.transaction.state is State.ONGOING:
                self._counts.fenced += 1
                entry.see(client)
                self._table.apply(entry, states.fence(entry.transaction, moment.now_ms), moment)
                self._init_producer(request, client, spare_id, asked, moment)
                return
            changed = states.init(entry.transaction, expected, timeout_ms, spare_id, moment.now_ms)
            self._table.apply(entry, changed, moment)
        entry.see(client)
        response = InitProducerIdResponse()
        response.producer_id, response.producer_epoch = entry.transaction.client_producer
        self.output.respond(asked.waiter, response)

    def _add(self, name: str, transaction: Transaction, moment: Moment) -> TransactionalId:
        if len(self.ids) >= IDS_MAX:
            message = f"the coordinator has {IDS_MAX} transactional ids already"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        return self._table.add(name, transaction, moment)

    # AddPartitionsToTxn and AddOffsetsToTxn

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        verify_only: bool,
        version: int,
        client: Client | None,
        waiter: Waiter,
        moment: Moment,
    ) -> None:
        """Adds partitions to the transaction, or tells which ones it has if `verify_only`.

        Responds with an error code for each partition: a `dict[TopicPartition, ErrorCode]`. A refusal holds for all of
        them. The caller has checked that the partitions exist. `client` is None if another SPU asks for its producer.
        """
        producer = Producer(producer_id, producer_epoch)
        if verify_only:
            asked = Asked(waiter, partial(self._verify, transactional_id, producer, partitions))
        else:
            transaction_version = EPOCH_BUMPED if version >= EPOCH_BUMPED_FROM else EPOCH_KEPT
            added = _Added(transactional_id, producer, partitions, transaction_version, client)
            response = dict.fromkeys(partitions, ErrorCode.NONE)
            asked = Asked(waiter, partial(self._add_partitions, added, response), version >= FENCED_FROM)
        self._handle(asked, moment)

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, version: int, client: Client, waiter: Waiter, moment: Moment
    ) -> None:
        """Adds the partition of the group's offsets to the transaction. Responds with an AddOffsetsToTxnResponse."""
        handle = partial(self._add_offsets, request, client)
        self._handle(Asked(waiter, handle, version >= FENCED_FROM), moment)

    def _add_offsets(self, request: AddOffsetsToTxnRequest, client: Client, asked: Asked, moment: Moment) -> None:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        topic = self._cluster.topics.get(GROUPS_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {GROUPS_TOPIC} yet")
        partition = TopicPartition(GROUPS_TOPIC, partition_of(request.group_id, len(topic.partitions)))
        producer = Producer(request.producer_id, request.producer_epoch)
        # Clients whose epoch is increased at each end of a transaction do not send this request.
        added = _Added(request.transactional_id, producer, frozenset((partition,)), EPOCH_KEPT, client)
        self._add_partitions(added, AddOffsetsToTxnResponse(), asked, moment)

    def _add_partitions(self, added: _Added, response: object, asked: Asked, moment: Moment) -> None:
        entry = self._find(added.transactional_id)
        transaction = entry.transaction
        states.check_producer(transaction, added.producer)
        if transaction.state.is_ending:
            self._park(entry, asked, moment)
            return
        if not states.has_partitions(transaction, added.partitions):
            if added.version == EPOCH_KEPT:
                _check_connection(entry, added.client)
            changed = states.add_partitions(transaction, added.partitions, added.version, moment.now_ms)
            if len(changed.partitions) > PARTITIONS_MAX:
                message = f"a transaction cannot have more than {PARTITIONS_MAX} partitions"
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            if self._table.partition_count + len(added.partitions) > OPEN_PARTITIONS_MAX:
                message = "the open transactions of this coordinator have too many partitions at the moment"
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
            self._table.apply(entry, changed, moment)
        entry.see(added.client)
        self.output.respond(asked.waiter, response)

    def _verify(
        self, name: str, producer: Producer, partitions: frozenset[TopicPartition], asked: Asked, moment: Moment
    ) -> None:
        entry = self._find(name)
        transaction = entry.transaction
        states.check_producer(transaction, producer)
        if transaction.state.is_ending:
            self._park(entry, asked, moment)
            return
        missing = partitions - transaction.partitions
        response = {each: ErrorCode.TRANSACTION_ABORTABLE if each in missing else ErrorCode.NONE for each in partitions}
        self.output.respond(asked.waiter, response)

    # EndTxn

    def end(
        self,
        request: EndTxnRequest,
        version: int,
        client: Client,
        spare_id: int | None,
        waiter: Waiter,
        moment: Moment,
    ) -> None:
        """Commits or aborts the transaction. Responds with an EndTxnResponse when the decision is committed.

        From version 5, the response has the producer id and the epoch for the next transaction.
        """
        handle = partial(self._end, request, version >= EPOCH_BUMPED_FROM, client, spare_id)
        self._handle(Asked(waiter, handle, version >= FENCED_FROM), moment)

    def _end(
        self,
        request: EndTxnRequest,
        is_bumping: bool,
        client: Client,
        spare_id: int | None,
        asked: Asked,
        moment: Moment,
    ) -> None:
        entry = self._find(request.transactional_id)
        transaction = entry.transaction
        producer = Producer(request.producer_id, request.producer_epoch)
        step_of = states.step_of_end_v2 if is_bumping else states.step_of_end_v1
        step = step_of(transaction, producer, is_commit=request.committed)
        if step is not EndStep.DECIDED and is_bumping and transaction.needs_producer_id and spare_id is None:
            raise ProducerIdNeededError
        if step is EndStep.WAIT:
            self._park(entry, asked, moment)
            return
        if step is EndStep.PREPARE and not is_bumping:
            _check_connection(entry, client)
        entry.see(client)
        if step is not EndStep.DECIDED:
            version = EPOCH_BUMPED if is_bumping else EPOCH_KEPT
            next_id = spare_id if is_bumping and transaction.needs_producer_id else None
            changed = states.prepare(transaction, version, next_id, moment.now_ms, is_commit=request.committed)
            self._table.apply(entry, changed, moment)
        response = EndTxnResponse()
        if is_bumping:
            response.producer_id, response.producer_epoch = entry.transaction.client_producer
        self.output.respond(asked.waiter, response)

    # markers

    def on_markers_written(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        moment: Moment,
    ) -> None:
        """Notes that the markers of these partitions are committed, or that the partitions do not exist any more."""
        entry = self.ids.get(transactional_id)
        if entry is None or not _is_ending_as(entry.transaction, Producer(producer_id, producer_epoch)):
            return
        if self._table.on_written(entry, partitions, moment):
            self._release(entry, moment)

    # reports

    def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        """Describes the transactional id. Raises KafkaError if it is not known.

        The state may not be committed yet: respond with it through the output.
        """
        _check_name(transactional_id)
        entry = self.ids.get(transactional_id)
        if entry is None:
            message = f"there is no transactional id {transactional_id}"
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, message)
        return transaction_report.describe(entry)

    def list(
        self, request: list_transactions.ListTransactionsRequest, moment: Moment
    ) -> "list[list_transactions.TransactionState]":
        """Lists the ids that pass all filters of the request. Raises KafkaError if the pattern is not valid."""
        return transaction_report.list_ids(self.ids.values(), request, moment)

    # inside

    def _handle(self, asked: Asked, moment: Moment) -> None:
        """Handles a request. A refusal waits for the commit of the state that is its reason."""
        try:
            asked.handle(asked, moment)
        except ProducerIdNeededError:
            raise
        except KafkaError as error:
            if error.code == ErrorCode.PRODUCER_FENCED and not asked.knows_fenced:
                error = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
            self.output.respond(asked.waiter, error)

    def _find(self, name: str) -> TransactionalId:
        _check_name(name)
        entry = self.ids.get(name)
        if entry is None:
            message = f"the transactional id {name} is not known: it was never used, or has expired"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
        return entry

    def _park(self, entry: TransactionalId, asked: Asked, moment: Moment) -> None:
        """Keeps a request until the transaction of its id has ended."""
        if not self._parked.park(entry.transactional_id, asked, moment.now):
            self._counts.refused_as_concurrent += 1
            raise _concurrent()
        self._counts.parked += 1

    def _release(self, entry: TransactionalId, moment: Moment) -> None:
        """Handles the requests that waited for the end of the transaction. Some may have to wait for the next end."""
        for asked in self._parked.take(entry.transactional_id):
            try:
                self._handle(asked, moment)
            except ProducerIdNeededError as error:
                self.output.respond(asked.waiter, error)


def _is_ending_as(transaction: Transaction, producer: Producer) -> bool:
    """Returns whether these are the markers that the transaction waits for."""
    return transaction.state.is_ending and producer == (transaction.producer_id, transaction.epoch)


def _check_name(name: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if len(name.encode(errors="replace")) > ID_BYTES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the transactional id has more than {ID_BYTES_MAX} bytes")


def _check_connection(entry: TransactionalId, client: Client | None) -> None:
    """Raises KafkaError if the client has used the transactional id on a newer connection.

    A request that was delayed in the network could otherwise end the next transaction, or begin one that has no client,
    because a client with the older protocol has the same epoch in all its transactions.
    """
    if client is not None and client.connection < entry.connection:
        message = "the producer uses a newer connection: this request was meant for an earlier transaction"
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, message)


def _concurrent() -> KafkaError:
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the markers of the transaction before are not written yet")
