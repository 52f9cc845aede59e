"""Adds partitions to transactions, or verifies that they were added, at the coordinator of another SPU. Pure.

SPUs ask each other with the versions of AddPartitionsToTxn that clients never send.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode, KafkaError, known_code
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

FROM_SPUS = 4
"""The first version of AddPartitionsToTxn that brokers send. It has several transactions in one request."""
_RETRIABLE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""The errors that pass: coordinators move, are loaded, or finish the transaction before."""

Added = Mapping[TopicPartition, ErrorCode]


class Adding(Struct, frozen=True):
    """Partitions that one producer writes to in a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    verify_only: bool

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes while it waits."""
        return 100 * (1 + len(self.partitions))

    def request(self, version: int) -> AddPartitionsToTxnRequest:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            topics.setdefault(topic, []).append(partition)
        transaction = AddPartitionsToTxnTransaction(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.verify_only,
            [AddPartitionsToTxnTopic(*each) for each in topics.items()],
        )
        return AddPartitionsToTxnRequest([transaction])

    def result(self, response: AddPartitionsToTxnResponse) -> Added:
        """Returns the code of each partition. Raises KafkaError if the request failed as a whole."""
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(known_code(response.error_code), "the coordinator refused the request")
        codes = {
            TopicPartition(topic.name, each.partition_index): known_code(each.partition_error_code)
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for each in topic.results_by_partition
        }
        return {each: codes.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in self.partitions}


def may_pass(codes: Iterable[ErrorCode]) -> bool:
    """Returns whether one of the errors passes, so that the partitions should be added again soon."""
    return not _RETRIABLE.isdisjoint(codes)
