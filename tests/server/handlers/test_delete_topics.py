"""DeleteTopics: by name and by id, and what a name means afterwards."""

from uuid import UUID

import pytest
from simulation.client import WireClient
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)

BY_ID = 6
UNKNOWN_ID = UUID(int=99)


async def delete(
    client: WireClient, *topics: str | UUID | DeleteTopicState, version: int
) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(timeout_ms=1000)
    for topic in topics:
        if isinstance(topic, UUID):
            request.topics.append(DeleteTopicState(None, topic))
        elif isinstance(topic, DeleteTopicState):
            request.topics.append(topic)
        elif version >= BY_ID:
            request.topics.append(DeleteTopicState(topic))
        else:
            request.topic_names.append(topic)
    results: list[DeletableTopicResult] = (await client.request(ApiKey.DELETE_TOPICS, version, request)).responses
    return results


def errors(results: list[DeletableTopicResult]) -> list[tuple[str | None, int]]:
    return [(result.name, result.error_code) for result in results]


@pytest.mark.parametrize("version", range(1, 7))
async def test_every_version_deletes_by_name(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        await running.create("t")
        results = await delete(await running.client(), "t", "nope", version=version)
        assert errors(results) == [("t", 0), ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert not running.spu.cluster.topics
        assert running.spu.replicas.find("t", 0) is None


async def test_an_id_distinguishes_topics_of_the_same_name(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        first = await running.create("t")
        (by_id,) = await delete(client, first.id, version=BY_ID)
        assert (by_id.error_code, by_id.name, by_id.topic_id) == (0, "t", first.id)
        second = await running.create("t")
        (gone,) = await delete(client, first.id, version=BY_ID)
        assert (gone.error_code, gone.name, gone.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, first.id)
        assert running.spu.cluster.topics["t"].id == second.id != first.id


async def test_a_topic_that_is_named_twice_by_name_or_id_is_refused_once(autojump_clock: object) -> None:
    async with running_spu() as running:
        spec = await running.create("t")
        results = await delete(await running.client(), "t", spec.id, "u", "u", version=BY_ID)
        assert errors(results) == [("t", ErrorCode.INVALID_REQUEST), ("u", ErrorCode.INVALID_REQUEST)]
        assert set(running.spu.cluster.topics) == {"t"}


@pytest.mark.parametrize("topic", [DeleteTopicState(None), DeleteTopicState("t", UNKNOWN_ID)])
async def test_a_topic_is_named_by_its_name_or_its_id(autojump_clock: object, topic: DeleteTopicState) -> None:
    async with running_spu() as running:
        await running.create("t")
        (result,) = await delete(await running.client(), topic, version=BY_ID)
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert set(running.spu.cluster.topics) == {"t"}


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED), (6, ErrorCode.TOPIC_DELETION_DISABLED)],
)
async def test_deletion_can_be_switched_off(autojump_clock: object, version: int, code: ErrorCode) -> None:
    async with running_spu(broker={"delete.topic.enable": "false"}) as running:
        await running.create("t")
        (result,) = await delete(await running.client(), "t", version=version)
        assert result.error_code == code
        assert set(running.spu.cluster.topics) == {"t"}
