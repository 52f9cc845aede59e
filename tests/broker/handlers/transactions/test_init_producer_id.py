"""InitProducerId: a new id, whatever id the producer had before."""

from typing import Any

import pytest
from abandoned_spus import client_of_abandoned_spu
from simulation.client import WireClient
from spus import World, running_spu
from transaction_clients import TransactionalProducer, transacting

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import ProducerId
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def init(client: WireClient, version: int = 5, **asked: Any) -> InitProducerIdResponse:
    request = InitProducerIdRequest(**{"transactional_id": None, **asked})
    response: InitProducerIdResponse = await client.request(ApiKey.INIT_PRODUCER_ID, version, request)
    return response


@pytest.mark.parametrize("version", range(6))
async def test_every_version_gives_a_new_id(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        first, second = await init(client, version), await init(client, version)
        assert (first.error_code, first.producer_epoch) == (second.error_code, second.producer_epoch) == (0, 0)
        assert 0 <= first.producer_id != second.producer_id >= 0


async def test_a_producer_that_had_an_id_gets_another(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        first = await init(client)
        for epoch in (0, 5, 32767):
            again = await init(client, producer_id=first.producer_id, producer_epoch=epoch)
            assert (again.error_code, again.producer_epoch) == (0, 0)
            assert again.producer_id != first.producer_id


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "t"}, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_a_producer_that_cannot_be_served(autojump_clock: object, asked: dict[str, Any], code: ErrorCode) -> None:
    async with running_spu() as running:
        response = await init(await running.client(), **asked)
        assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


async def test_ids_are_new_after_a_restart_and_after_a_crash(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        client = await running.client()
        before = {(await init(client)).producer_id for _ in range(5)}
        crashed = world.crashed("synced")
    for after_it in (world, crashed):
        async with running_spu(after_it) as running:
            client = await running.client()
            after = {(await init(client)).producer_id for _ in range(5)}
        assert before.isdisjoint(after)


async def test_without_a_controller_the_producer_has_to_retry(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        answer = await init(client)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)


@pytest.mark.parametrize("version", range(6))
async def test_a_transactional_producer_keeps_its_id_and_gets_the_next_epoch(
    autojump_clock: object, version: int
) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        for epoch in (1, 2):
            again = await producer.init(version)
            assert (again.error_code, again.producer_epoch) == (0, epoch)
        other = await TransactionalProducer(producer.client, "other").init(version)
        assert (other.error_code, other.producer_epoch) == (0, 0)
        assert other.producer_id != producer.producer_id


async def test_a_new_producer_aborts_the_transaction_of_the_one_before(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        await producer.add("t", 0)
        await producer.produce("t", 0, b"a")
        newer = TransactionalProducer(await running.client())
        assert (await newer.init()).error_code == 0
        assert newer.epoch > producer.epoch
        assert (await newer.describe()).transaction_state == "Empty"
        assert await producer.produce("t", 0, b"b") == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_transaction_cannot_take_longer_than_the_maximum(autojump_clock: object) -> None:
    async with running_spu(broker={"transaction.max.timeout.ms": "5000"}) as running:
        producer = await transacting(running, timeout_ms=5000)
        for timeout_ms in (5001, 0, -1):
            refused = await producer.init(timeout_ms=timeout_ms)
            assert (refused.error_code, refused.producer_id) == (ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1)


async def test_without_a_controller_a_transactional_producer_has_to_retry(autojump_clock: object) -> None:
    """There is no id for a producer that needs one."""
    async with running_spu() as running:
        await transacting(running)

        async def none_left() -> ProducerId:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        running.spu.transactions._next_producer_id = none_left
        refused = await TransactionalProducer(await running.client(), "another").init()
        assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
