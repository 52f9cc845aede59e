"""DescribeProducers on a whole SPU."""

import pytest
from producing import ask, request
from simulation.client import WireClient
from spus import batch, led_elsewhere, running_spu
from transactional_producing import PRODUCER, end_transaction, inside, transactional, with_coordinators

from tailrace.broker.handlers.transactions import describe_producers
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)


async def _described(client: WireClient, *partitions: int) -> list[PartitionResponse]:
    response = await client.request(
        ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest([TopicRequest("t", list(partitions))])
    )
    described: list[PartitionResponse] = response.topics[0].partitions
    return described


async def test_producers_are_described_with_their_open_transactions(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        await ask(client, request(batch(b"a", b"b", timestamp=5, producer_id=9, producer_epoch=1, base_sequence=0)))
        await ask(client, transactional(inside(b"a", 0)))
        now_ms = running.world.clock.now_ms()
        (found,) = await _described(client, 0)
        assert found.active_producers == [
            ProducerState(9, 1, 1, 6, -1, -1),
            ProducerState(PRODUCER, 0, 0, now_ms, -1, 2),
        ]
        await end_transaction(client, 1, coordinator_epoch=4, transaction_version=2)
        (found,) = await _described(client, 0)
        assert found.active_producers[1] == ProducerState(PRODUCER, 1, -1, now_ms, 4, -1)
        led_elsewhere(running.replica("t"))
        assert await _described(client, 0) == [found], "followers respond as well"


async def test_partitions_that_are_not_here_say_so(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        running.replica("t").go_offline("a test")
        codes = [each.error_code for each in await _described(await running.client(), 0, 1)]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_response_is_bounded_and_names_open_transactions_first(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_producers, "PRODUCERS_MAX", 2)
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        await ask(client, transactional(inside(b"a", 0)))
        for producer in (8, 9):
            await ask(client, request(batch(b"a", producer_id=producer, producer_epoch=0, base_sequence=0)))
        first, second = await _described(client, 0, 0)
        assert [each.producer_id for each in first.active_producers] == [PRODUCER, 9]
        assert second.active_producers == []
