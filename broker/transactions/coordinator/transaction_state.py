"""The state machine of one transactional id: pure steps from one stored state to the next.

Each step returns the new state, or raises KafkaError if the request does not fit. The states, the epochs and the
records are those of Apache Kafka 4.3, with these differences:

- A decision takes effect at once, because responses wait for its commit. There is no pending state.
- If a transaction is aborted at the last epoch but one, no new producer id is chosen at that moment. The last epoch is
  given to no client, and the next InitProducerId chooses the new producer id.
- A producer that names an old epoch in InitProducerId is refused before it could abort the transaction of another one.
"""

from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tailrace.broker.transactions.common.producer_id_needed import ProducerIdNeededError
from tailrace.broker.transactions.common.transaction_records import TransactionRecord
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

NONE = -1
EPOCH_MAX = 2**15 - 1
"""The last epoch. No client gets it, so that the last producer of an id can still be fenced."""
EPOCH_USED_MAX = EPOCH_MAX - 1

EPOCH_BUMPED = 2
"""The transaction version at which each end of a transaction increases the epoch (KIP-890)."""
EPOCH_KEPT = 0
"""What the state has as transaction version if the client uses an older protocol, as in Kafka."""


_IDLE = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


class Producer(NamedTuple):
    """What identifies a producer to the leaders of partitions."""

    producer_id: int
    epoch: int


class Transaction(Struct, frozen=True):
    """The state of a transactional id, which is a function of its last record, apart from some `last_epoch`."""

    producer_id: int
    previous_producer_id: int
    """The producer id before the last step, which is a different one only after a new producer id was chosen."""
    next_producer_id: int
    """The producer id at which the client goes on after the end of this transaction, because the epochs of this one are
    exhausted; NONE otherwise."""
    epoch: int
    last_epoch: int
    """The epoch that the same producer had before, for its retries; NONE if there is none.

    Records have no field for it. It is lost with the coordinator, as in Kafka, unless the end of a transaction has just
    increased the epoch.
    """
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    started_ms: int
    """The time at which the transaction began; NONE if there was none since InitProducerId."""
    updated_ms: int
    version: int
    """EPOCH_BUMPED or EPOCH_KEPT: how the last transaction was ended, or will be if the client does it."""

    @property
    def is_exhausted(self) -> bool:
        """Whether no client may get the next epoch."""
        return self.epoch >= EPOCH_USED_MAX

    @property
    def needs_producer_id(self) -> bool:
        """Whether a client that ends a transaction now, and has its epoch increased, goes on with a new producer id."""
        return self.is_exhausted and self.next_producer_id == NONE

    @property
    def is_idle(self) -> bool:
        """Whether there is neither an open transaction, nor one whose markers are being written."""
        return self.state in _IDLE

    @property
    def client_producer(self) -> Producer:
        """The producer id and epoch with which the client goes on."""
        if self.next_producer_id != NONE:
            return Producer(self.next_producer_id, 0)
        return Producer(self.producer_id, self.epoch)


# InitProducerId


def first(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """Returns the state of a new transactional id."""
    return Transaction(
        producer_id=producer_id,
        previous_producer_id=producer_id,
        next_producer_id=NONE,
        epoch=0,
        last_epoch=NONE,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        started_ms=NONE,
        updated_ms=now_ms,
        version=EPOCH_KEPT,
    )


def check_may_init(transaction: Transaction, expected: Producer | None) -> None:
    """Raises KafkaError if the producer that asks for a new epoch has been fenced. `expected` is what the producer has,
    or None if it has just started."""
    if expected is None or expected == _current(transaction):
        return
    is_known = expected.producer_id == transaction.producer_id or (
        expected.producer_id == transaction.previous_producer_id and expected.epoch >= EPOCH_USED_MAX
    )
    if not (is_known and NONE != expected.epoch == transaction.last_epoch and transaction.is_idle):
        raise _fenced()


def init(
    transaction: Transaction, expected: Producer | None, timeout_ms: int, spare_id: int | None, now_ms: int
) -> Transaction:
    """Gives the next epoch to a producer. The id is idle, and `check_may_init` has agreed.

    Raises ProducerIdNeededError if the epochs are exhausted and there is no `spare_id`.
    """
    is_retry = expected is not None and expected != _current(transaction)
    if is_retry and transaction.epoch < EPOCH_MAX:
        producer_id, epoch, last_epoch = transaction.producer_id, transaction.epoch, transaction.last_epoch
    elif transaction.is_exhausted:
        if spare_id is None:
            raise ProducerIdNeededError
        producer_id, epoch, last_epoch = spare_id, 0, NONE if expected is None else expected.epoch
    else:
        producer_id, epoch = transaction.producer_id, transaction.epoch + 1
        last_epoch = NONE if expected is None else transaction.epoch
    return replace(
        transaction,
        producer_id=producer_id,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NONE,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        started_ms=NONE,
        updated_ms=now_ms,
    )


# AddPartitionsToTxn


def check_producer(transaction: Transaction, producer: Producer) -> None:
    """Raises KafkaError if this is not the current producer.

    While the transaction before is ending, the current producer may already be one with a new producer id.
    """
    if transaction.state.is_ending and producer == transaction.client_producer:
        return
    if producer.producer_id != transaction.producer_id:
        raise _unknown_producer(producer)
    if producer.epoch != transaction.epoch or producer.epoch == EPOCH_MAX:
        raise _fenced()


def has_partitions(transaction: Transaction, partitions: frozenset[TopicPartition]) -> bool:
    """Returns whether the open transaction has all these partitions already."""
    return transaction.state is State.ONGOING and partitions <= transaction.partitions


def add_partitions(
    transaction: Transaction, partitions: frozenset[TopicPartition], version: int, now_ms: int
) -> Transaction:
    """Adds partitions to the open transaction, or begins one. `check_producer` has agreed, and none is ending."""
    return replace(
        transaction,
        previous_producer_id=transaction.producer_id,
        state=State.ONGOING,
        partitions=transaction.partitions | partitions,
        started_ms=transaction.started_ms if transaction.state is State.ONGOING else now_ms,
        updated_ms=now_ms,
        version=version,
    )


# EndTxn


class EndStep(IntEnum):
    """What an EndTxn means for the state of its transactional id."""

    PREPARE = 0
    """The transaction ends now."""
    PREPARE_EMPTY = 1
    """There is no transaction to abort; the producer gets a new epoch nevertheless."""
    DECIDED = 2
    """The end was decided as the client wants it. This is a retry."""
    WAIT = 3
    """The request is about the next transaction. The one before is still ending."""


def step_of_end_v1(transaction: Transaction, producer: Producer, *, is_commit: bool) -> EndStep:
    """Decides about the EndTxn of a client that keeps its epoch. Raises KafkaError if it does not fit."""
    if producer.producer_id != transaction.producer_id:
        raise _unknown_producer(producer)
    if producer.epoch != transaction.epoch:
        raise _fenced()
    match transaction.state:
        case State.ONGOING:
            return EndStep.PREPARE
        case State.PREPARE_COMMIT | State.COMPLETE_COMMIT if is_commit:
            return EndStep.DECIDED
        case State.PREPARE_ABORT | State.COMPLETE_ABORT if not is_commit:
            return EndStep.DECIDED
    raise _wrong_state(transaction, is_commit)


def step_of_end_v2(transaction: Transaction, producer: Producer, *, is_commit: bool) -> EndStep:
    """Decides about the EndTxn of a client whose epoch each end increases. Raises KafkaError if it does not fit."""
    if _is_retry_of_end(transaction, producer):
        return _step_of_retry(transaction, is_commit)
    check_producer(transaction, producer)
    match transaction.state:
        case State.PREPARE_COMMIT | State.PREPARE_ABORT:
            return EndStep.WAIT
        case State.ONGOING:
            return EndStep.PREPARE
    if is_commit:
        raise _wrong_state(transaction, is_commit)
    return EndStep.PREPARE_EMPTY


def _is_retry_of_end(transaction: Transaction, producer: Producer) -> bool:
    """Returns whether the producer has the epoch that the last end of a transaction has increased."""
    if transaction.version < EPOCH_BUMPED or transaction.state in (State.EMPTY, State.ONGOING):
        return False
    if producer.producer_id == transaction.producer_id:
        return producer.epoch + 1 == transaction.epoch
    return producer == (transaction.previous_producer_id, EPOCH_USED_MAX) and transaction.epoch == 0


def _step_of_retry(transaction: Transaction, is_commit: bool) -> EndStep:
    committed = transaction.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    if is_commit and not committed:
        # The coordinator itself has aborted the transaction, for example after its timeout.
        raise _fenced()
    if is_commit != committed:
        raise _wrong_state(transaction, is_commit)
    if transaction.client_producer.epoch == EPOCH_MAX:
        raise _fenced()
    return EndStep.DECIDED


def prepare(
    transaction: Transaction, version: int, next_producer_id: int | None, now_ms: int, *, is_commit: bool
) -> Transaction:
    """Decides the end of a transaction. If there is none, it begins and ends now.

    `next_producer_id` is for the client to go on with if the epochs are exhausted.
    """
    is_bumped = version >= EPOCH_BUMPED
    return replace(
        transaction,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NONE if next_producer_id is None else next_producer_id,
        epoch=min(transaction.epoch + 1, EPOCH_MAX) if is_bumped else transaction.epoch,
        last_epoch=transaction.epoch if is_bumped else transaction.last_epoch,
        state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
        started_ms=transaction.started_ms if transaction.state is State.ONGOING else now_ms,
        updated_ms=now_ms,
        version=version,
    )


def fence(transaction: Transaction, now_ms: int) -> Transaction:
    """Aborts the open transaction because of its timeout, or because another producer begins.

    The epoch of the markers is a new one, whichever protocol the client uses. It fences the client.
    """
    return prepare(transaction, EPOCH_BUMPED, None, now_ms, is_commit=False)


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Ends the transaction, after all markers are written."""
    producer = transaction.client_producer
    return replace(
        transaction,
        producer_id=producer.producer_id,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NONE,
        epoch=producer.epoch,
        state=State.COMPLETE_COMMIT if transaction.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
    )


# records


def to_record(transactional_id: str, transaction: Transaction) -> TransactionRecord:
    partitions = None
    if transaction.state is not State.EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(partition)
        partitions = [PartitionsSchema(topic, numbers) for topic, numbers in by_topic.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version,
    )
    return TransactionRecord(TransactionLogKey(transactional_id), value)


def from_value(value: TransactionLogValue) -> Transaction:
    """Returns the stored state."""
    state = State(value.transaction_status)
    last_epoch = NONE
    if value.client_transaction_version >= EPOCH_BUMPED and state not in (State.EMPTY, State.ONGOING):
        last_epoch = value.producer_epoch - 1 if value.producer_epoch else EPOCH_USED_MAX
    return Transaction(
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        epoch=value.producer_epoch,
        last_epoch=last_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, number)
            for topic in value.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        version=value.client_transaction_version,
    )


# errors


def _current(transaction: Transaction) -> Producer:
    return Producer(transaction.producer_id, transaction.epoch)


def _fenced() -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED, "a newer producer uses the transactional id, or its epoch was increased"
    )


def _unknown_producer(producer: Producer) -> KafkaError:
    message = f"the producer id of the transactional id is not {producer.producer_id}"
    return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)


def _wrong_state(transaction: Transaction, is_commit: bool) -> KafkaError:
    verb = "commit" if is_commit else "abort"
    message = f"there is no transaction to {verb}: the state is {transaction.state.kafka_name}"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, message)
