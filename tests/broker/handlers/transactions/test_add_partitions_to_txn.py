"""AddPartitionsToTxn of clients and of other SPUs, on a whole SPU."""

import pytest
from spus import running_spu
from transaction_clients import TransactionalProducer, transacting

from tailrace.cluster.coordinators import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest


@pytest.mark.parametrize("version", range(4))
async def test_clients_add_partitions_in_every_version(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        assert await producer.add("t", 0, 1, version=version) == [0, 0]
        described = await producer.describe()
        assert described.transaction_state == "Ongoing"
        assert [(each.topic, each.partitions) for each in described.topics] == [("t", [0, 1])]


@pytest.mark.parametrize("version", [4, 5])
async def test_other_spus_add_and_verify(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        assert await producer.add_as_spu("t", 0, version=version) == [0]
        verified = await producer.add_as_spu("t", 0, 1, verify_only=True, version=version)
        assert verified[0] == ErrorCode.NONE
        assert verified[1] != ErrorCode.NONE
        assert [each.partitions for each in (await producer.describe()).topics] == [[0]]


@pytest.mark.parametrize("version", [3, 5])
async def test_a_missing_partition_keeps_the_others_out(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        add = producer.add if version == 3 else producer.add_as_spu
        assert await add("t", 1, 2) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await add("unknown", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert (await producer.describe()).transaction_state == "Empty"


@pytest.mark.parametrize(
    ("topic", "version", "code"),
    [
        (TRANSACTIONS_TOPIC, 3, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (TRANSACTIONS_TOPIC, 5, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (GROUPS_TOPIC, 3, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (GROUPS_TOPIC, 5, ErrorCode.NONE),
    ],
)
async def test_internal_topics_are_added_by_spus_alone(
    autojump_clock: object, topic: str, version: int, code: ErrorCode
) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        await producer.client.request(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="g"))
        add = producer.add if version == 3 else producer.add_as_spu
        assert await add(topic, 0) == [code]
        assert (await producer.describe()).transaction_state == ("Empty" if code else "Ongoing")


async def test_one_request_has_several_transactions(autojump_clock: object) -> None:
    async with running_spu() as running:
        producers = [await transacting(running)]
        producers.append(TransactionalProducer(await running.client(), "second"))
        await producers[1].init()
        request = AddPartitionsToTxnRequest(
            [
                AddPartitionsToTxnTransaction(name, producer.producer_id, 0, False, [AddPartitionsToTxnTopic("t", [0])])
                for name, producer in zip(("id", "second", "unknown"), (*producers, producers[0]), strict=True)
            ]
        )
        response = await producers[0].client.request(ApiKey.ADD_PARTITIONS_TO_TXN, 5, request)
        codes = [
            each.topic_results[0].results_by_partition[0].partition_error_code
            for each in response.results_by_transaction
        ]
        assert [each.transactional_id for each in response.results_by_transaction] == ["id", "second", "unknown"]
        assert codes == [0, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
async def test_a_fenced_producer_gets_an_error_that_it_knows(
    autojump_clock: object, version: int, code: ErrorCode
) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        await TransactionalProducer(await running.client()).init()
        assert await producer.add("t", 0, version=version) == [code]


async def test_an_spu_that_does_not_coordinate_says_so(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        producer = TransactionalProducer(await running.client())
        assert await producer.add("t", 0) == [ErrorCode.NOT_COORDINATOR]
