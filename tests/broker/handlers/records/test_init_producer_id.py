"""InitProducerId: a new id, whatever id the producer had before."""

from typing import Any

import pytest
from abandoned_spus import client_of_abandoned_spu
from simulation.client import WireClient
from spus import World, running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
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
        ({"transactional_id": "t"}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
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
