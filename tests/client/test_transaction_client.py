"""Tests the client against scripted brokers; `tests/cli/transactions/` tests it against a whole SPU."""

from typing import Any

import pytest
from scripted_brokers import ScriptedBroker, scripted_brokers
from trio.testing import MockClock

from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transaction_client import TransactionClient
from tailrace.client.transaction_facts import OpenTransaction, Transaction
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.protocol.messages import list_transactions
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tailrace.protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from tailrace.protocol.messages.init_producer_id import InitProducerIdResponse
from tailrace.protocol.messages.list_transactions import ListTransactionsResponse
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

PARTITION = Partition("orders", 0)


def listed(broker: ScriptedBroker, *names: str) -> ListTransactionsResponse:
    states = [list_transactions.TransactionState(name, 9, "Ongoing") for name in names]
    return ListTransactionsResponse(transaction_states=states)


def producers(*first_offsets: int) -> DescribeProducersResponse:
    states = [ProducerState(9, 3, 0, 1000, 5, each) for each in first_offsets]
    return DescribeProducersResponse(topics=[TopicResponse("orders", [PartitionResponse(0, active_producers=states)])])


async def test_all_coordinators_are_asked_for_their_transactions() -> None:
    def script(broker: ScriptedBroker, request: Any) -> Any:
        assert request.API_KEY == ApiKey.LIST_TRANSACTIONS
        return listed(broker, f"id-{3 - broker.id}")

    async with scripted_brokers(script, 1, 2) as cluster:
        found = await TransactionClient(SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP)).listed()
        assert [(each.id, each.coordinator) for each in found] == [("id-1", 2), ("id-2", 1)]


async def test_a_broker_that_tells_no_clients_describes_transactions_all_the_same() -> None:
    """Apache Kafka closes the connection when it is asked for an API that it does not know."""

    def script(broker: ScriptedBroker, request: Any) -> Any:
        if request.API_KEY == InternalApiKey.EXPLAIN_TRANSACTION:
            broker.connections[-1].close()
            return None
        states = [TransactionState(0, "id", "Ongoing", 60_000, 1000, 9, 3, [TopicData("orders", [0])])]
        return DescribeTransactionsResponse(transaction_states=states)

    async with scripted_brokers(script) as cluster:
        client = TransactionClient(SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP))
        assert await client.describe(["id"]) == {
            "id": Transaction("id", "Ongoing", 9, 3, 60_000, 1000, (PARTITION,), 1, None)
        }


async def test_a_transaction_that_ended_between_two_questions_does_not_hang() -> None:
    answers = [producers(7), producers(-1)]

    def script(broker: ScriptedBroker, request: Any) -> Any:
        return answers.pop(0) if request.API_KEY == ApiKey.DESCRIBE_PRODUCERS else listed(broker)

    async with scripted_brokers(script) as cluster:
        cluster.leaders["orders"] = [1]
        client = TransactionClient(SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP))
        assert await client.holders([PARTITION]) == []
        answers += [producers(7), producers(7)]
        (holder,) = await client.holders([PARTITION])
        assert holder.is_hanging
        assert holder.open == OpenTransaction(PARTITION, 1, 9, 3, 5, 7, 1000)


async def test_fencing_waits_while_markers_of_the_transaction_are_written(autojump_clock: MockClock) -> None:
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]

    def script(broker: ScriptedBroker, request: Any) -> Any:
        assert (request.transactional_id, request.transaction_timeout_ms, request.producer_id) == ("id", 60_000, -1)
        return InitProducerIdResponse(error_code=codes.pop(0))

    async with scripted_brokers(script) as cluster:
        client = TransactionClient(SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP))
        await client.fence(Transaction("id", "Ongoing", 9, 3, 60_000, 1000, (), 1))
        assert codes == []


async def test_the_marker_for_a_hanging_transaction_names_what_the_leader_knows() -> None:
    code = ErrorCode.NONE

    def script(broker: ScriptedBroker, request: Any) -> Any:
        (marker,) = request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (9, 3, 0)
        assert not marker.transaction_result
        result = WritableTxnMarkerTopicResult("orders", [WritableTxnMarkerPartitionResult(0, code)])
        return WriteTxnMarkersResponse([WritableTxnMarkerResult(9, [result])])

    async with scripted_brokers(script) as cluster:
        cluster.leaders["orders"] = [1]
        client = TransactionClient(SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP))
        hanging = OpenTransaction(PARTITION, 1, 9, 3, -1, 7, 1000)
        await client.abort_hanging(hanging)
        code = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        with pytest.raises(RefusedError, match="TRANSACTION_COORDINATOR_FENCED"):
            await client.abort_hanging(hanging)
