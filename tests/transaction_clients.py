"""A transactional producer that speaks Kafka's protocol over the simulated network, one request after the other."""

from collections import Counter
from typing import Any

from simulation.client import WireClient
from spus import RunningSpu, batch
from trio.testing import wait_all_tasks_blocked

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.batches.transaction_markers import marker_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TRANSACTION = 1
PRODUCE_VERSION = 11
"""The last version of Produce whose clients add partitions to transactions themselves."""


async def find_coordinator(client: WireClient, transactional_id: str) -> int:
    """Returns the SPU that coordinates the transactional id, or -1. Creates the internal topic."""
    request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
    response = await client.request(ApiKey.FIND_COORDINATOR, 3, request)
    node: int = response.node_id
    return node


async def transacting(running: RunningSpu, partitions: int = 2, timeout_ms: int = 60_000) -> "TransactionalProducer":
    """Returns a producer with an epoch, on an SPU that has the topic "t"."""
    await running.create("t", partitions)
    client = await running.client()
    await find_coordinator(client, "id")
    await wait_all_tasks_blocked()  # until all partitions of the internal topic are loaded
    producer = TransactionalProducer(client)
    assert (await producer.init(timeout_ms=timeout_ms)).error_code == ErrorCode.NONE
    return producer


def ends_of(replica: Replica) -> list[bool]:
    """Returns for each marker in the log of a replica whether it commits."""
    log, found = replica.log, []
    for each in log.read_batches(log.log_start, log.log_end):
        data = memoryview(each.read())
        markers = (marker_of(header, data, position) for position, header in iterate(data))
        found += [marker.is_commit for marker in markers if marker is not None]
    return found


class TransactionalProducer:
    def __init__(self, client: WireClient, transactional_id: str = "id", leader: WireClient | None = None) -> None:
        """`client` is connected to the coordinator, and `leader` to the leader of the partitions, if it differs."""
        self.client = client
        self.transactional_id = transactional_id
        self._leader = leader or client
        self.producer_id, self.epoch = -1, -1
        self._sequences: Counter[tuple[str, int]] = Counter()

    async def init(self, version: int = 4, timeout_ms: int = 60_000, **asked: Any) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **asked
        )
        response: InitProducerIdResponse = await self.client.request(ApiKey.INIT_PRODUCER_ID, version, request)
        if response.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
        return response

    async def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        """Returns the error code of each partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(partitions))],
        )
        response = await self.client.request(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
        return [
            each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    async def add_as_spu(self, topic: str, *partitions: int, verify_only: bool = False, version: int = 5) -> list[int]:
        """Asks as an SPU does for its producer. Returns the error code of each partition."""
        transaction = AddPartitionsToTxnTransaction(
            self.transactional_id,
            self.producer_id,
            self.epoch,
            verify_only,
            [AddPartitionsToTxnTopic(topic, list(partitions))],
        )
        request = AddPartitionsToTxnRequest([transaction])
        response = await self.client.request(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
        assert response.error_code == ErrorCode.NONE
        return [
            each.partition_error_code
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for each in topic.results_by_partition
        ]

    async def add_offsets(self, group_id: str, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group_id)
        response = await self.client.request(ApiKey.ADD_OFFSETS_TO_TXN, version, request)
        code: int = response.error_code
        return code

    async def produce(self, topic: str, partition: int, *values: bytes, version: int = PRODUCE_VERSION) -> int:
        """Returns the error code."""
        key = topic, partition
        data = batch(
            *values,
            is_transactional=True,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences[key],
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, data)])],
        )
        response = await self._leader.request(ApiKey.PRODUCE, version, request)
        code: int = response.responses[0].partition_responses[0].error_code
        if code == ErrorCode.NONE:
            self._sequences[key] += len(values)
        return code

    async def end(self, *, commit: bool, version: int = 3) -> EndTxnResponse:
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        response: EndTxnResponse = await self.client.request(ApiKey.END_TXN, version, request)
        if response.error_code == ErrorCode.NONE and version >= 5:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
        return response

    async def describe(self) -> TransactionState:
        request = DescribeTransactionsRequest([self.transactional_id])
        response = await self.client.request(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
        (described,) = response.transaction_states
        assert isinstance(described, TransactionState)
        return described

    async def list(self, **filters: Any) -> ListTransactionsResponse:
        response: ListTransactionsResponse = await self.client.request(
            ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(**filters)
        )
        return response
