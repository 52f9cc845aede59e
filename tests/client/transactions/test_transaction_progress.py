"""Tests the decisions about one producer's transactions."""

import pytest

from tailrace.client.log_client import ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.outgoing_line import Waiting
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.transactions.transaction_errors import ProducerFencedError, TransactionLostError
from tailrace.client.transactions.transaction_progress import Phase, TransactionProgress
from tailrace.protocol.batches.record_batch import BatchHeader, read_header
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode

HERE, THERE = Partition("invoices", 0), Partition("invoices", 1)


class _Receipt:
    def __init__(self) -> None:
        self.appended = 0
        self.refused: list[int] = []

    def on_appended(self) -> None:
        self.appended += 1

    def on_refused(self, number: int, error: RefusedError | UnreachableError) -> None:
        self.refused.append(number)


def _ready() -> tuple[TransactionProgress, _Receipt]:
    progress = TransactionProgress()
    progress.on_initialized(ProducerName(9, 3))
    return progress, _Receipt()


def _add(progress: TransactionProgress, receipt: _Receipt, partition: Partition, *numbers: int) -> None:
    for number in numbers:
        progress.add(partition, Waiting(Record(0, 5, None, b"v"), 10, receipt, number))


def _header(progress: TransactionProgress, partition: Partition = HERE) -> BatchHeader:
    return read_header(progress.batches()[partition])


def _refused(code: ErrorCode) -> RefusedError:
    return RefusedError(code.name, code)


def test_a_partition_gets_no_batch_before_it_is_in_the_transaction() -> None:
    progress, receipt = _ready()
    _add(progress, receipt, HERE, 0)
    _add(progress, receipt, THERE, 1)
    assert (progress.to_add, progress.batches(), progress.phase) == ([HERE, THERE], {}, Phase.READY)
    progress.on_added(HERE)
    assert (progress.to_add, [*progress.batches()], progress.is_open) == ([THERE], [HERE], True)


def test_batches_are_transactional_and_their_numbers_go_on_over_transactions() -> None:
    progress, receipt = _ready()
    _add(progress, receipt, HERE, 0, 1)
    progress.on_added(HERE)
    first = _header(progress)
    assert (first.is_transactional, first.producer_id, first.producer_epoch, first.base_sequence) == (True, 9, 3, 0)
    assert progress.on_answer(HERE, 40)
    progress.on_ended()
    assert progress.phase is Phase.READY
    _add(progress, receipt, HERE, 0)
    assert progress.to_add == [HERE], "the next transaction does not have the partition yet"
    progress.on_added(HERE)
    assert (_header(progress).base_sequence, _header(progress).producer_epoch) == (2, 3)


def test_a_batch_stays_the_same_until_its_leader_has_answered() -> None:
    progress, receipt = _ready()
    _add(progress, receipt, HERE, 0)
    progress.on_added(HERE)
    before = bytes(progress.batches()[HERE])
    _add(progress, receipt, HERE, 1)
    assert not progress.on_answer(HERE, UnreachableError("silent"))
    assert not progress.on_answer(HERE, _refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert bytes(progress.batches()[HERE]) == before
    assert progress.on_answer(HERE, None), "the leader had the batch already"
    assert (receipt.appended, progress.has_records) == (1, True)


def test_a_refused_record_leaves_the_transaction_open_and_takes_no_sequence_number() -> None:
    progress, receipt = _ready()
    _add(progress, receipt, HERE, 0)
    progress.on_added(HERE)
    progress.batches()
    assert progress.on_answer(HERE, _refused(ErrorCode.MESSAGE_TOO_LARGE))
    _add(progress, receipt, HERE, 1)
    assert (receipt.refused, progress.is_open, _header(progress).base_sequence) == ([0], True, 0)


def test_a_partition_that_cannot_be_added_refuses_its_records() -> None:
    progress, receipt = _ready()
    _add(progress, receipt, HERE, 0, 1)
    progress.on_not_added(HERE, _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert (receipt.refused, progress.has_records, progress.phase) == ([0, 1], False, Phase.READY)
    with pytest.raises(ProducerFencedError):
        progress.on_not_added(HERE, _refused(ErrorCode.PRODUCER_FENCED))


def test_an_error_of_the_producer_loses_the_transaction() -> None:
    progress, receipt = _ready()
    _add(progress, receipt, HERE, 0)
    progress.on_added(HERE)
    progress.batches()
    with pytest.raises(ProducerFencedError):
        progress.on_answer(HERE, _refused(ErrorCode.INVALID_PRODUCER_EPOCH))
    with pytest.raises(TransactionLostError):
        progress.on_answer(HERE, _refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))


def test_nothing_of_a_lost_transaction_is_sent_by_the_next_producer() -> None:
    progress, receipt = _ready()
    _add(progress, receipt, HERE, 0)
    progress.on_added(HERE)
    progress.on_group_added("billing")
    progress.lose()
    assert (progress.phase, progress.has_records) == (Phase.LOST, False)
    progress.on_initialized(ProducerName(9, 4))
    _add(progress, receipt, HERE, 0)
    assert (progress.to_add, progress.has_group("billing")) == ([HERE], False)
    progress.on_added(HERE)
    assert (_header(progress).producer_epoch, _header(progress).base_sequence) == (4, 0)


def test_a_group_opens_a_transaction_and_is_added_once_to_each() -> None:
    progress, _ = _ready()
    progress.on_group_added("billing")
    assert (progress.is_open, progress.has_group("billing")) == (True, True)
    progress.on_ended()
    assert (progress.is_open, progress.has_group("billing")) == (False, False)
