"""The requests by which SPUs add partitions to transactions at other SPUs."""

import pytest

from tailrace.broker.transactions.hosting.partition_adding import Adding, may_pass
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ADDING = Adding("id", 7, 3, frozenset({A0, A1, B0}), True)


def test_a_request_has_one_transaction() -> None:
    (transaction,) = ADDING.request(5).transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("id", 7, 3)
    assert transaction.verify_only
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("a", [0, 1]), ("b", [0])]


def test_each_partition_gets_its_code_and_a_missing_one_gets_an_error() -> None:
    results = [AddPartitionsToTxnPartitionResult(0, 0), AddPartitionsToTxnPartitionResult(1, 3)]
    response = AddPartitionsToTxnResponse(
        results_by_transaction=[AddPartitionsToTxnResult("id", [AddPartitionsToTxnTopicResult("a", results)])]
    )
    assert ADDING.result(response) == {
        A0: ErrorCode.NONE,
        A1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        B0: ErrorCode.UNKNOWN_SERVER_ERROR,
    }


def test_a_request_that_failed_raises_an_error() -> None:
    with pytest.raises(KafkaError) as caught:
        ADDING.result(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_which_errors_pass() -> None:
    assert may_pass([ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS])
    assert may_pass([ErrorCode.NOT_COORDINATOR])
    assert not may_pass([ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE])


def test_more_partitions_take_more_memory() -> None:
    assert ADDING.size_bytes > Adding("id", 7, 3, frozenset({A0}), True).size_bytes
