"""The cases of Kafka's ControllerMutationQuotaTest, with its numbers, through an SPU that forwards the requests."""

import pytest
import trio
from quota_samples import alter, quota
from simulation.client import WireClient
from spus import RunningSpu, running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.server.throttling.counted_mutations import CountedMutations

WINDOW = {"controller.quota.window.num": "10"}
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
Outcome = tuple[int, list[int]]
"""The throttle time and the error codes of a response."""


async def create(client: WireClient, version: int, partitions: int = 30) -> Outcome:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in ("topic-1", "topic-2")
    ]
    response = await client.request(ApiKey.CREATE_TOPICS, version, CreateTopicsRequest(topics=topics))
    return response.throttle_time_ms, [each.error_code for each in response.topics]


async def delete(client: WireClient, version: int) -> Outcome:
    names = ["topic-1", "topic-2"]
    request = (
        DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in names], timeout_ms=60_000)
        if version >= 6
        else DeleteTopicsRequest(topic_names=names, timeout_ms=60_000)
    )
    response = await client.request(ApiKey.DELETE_TOPICS, version, request)
    return response.throttle_time_ms, [each.error_code for each in response.responses]


async def add_partitions(client: WireClient, version: int) -> Outcome:
    topics = [CreatePartitionsTopic(name, 31, None) for name in ("topic-1", "topic-2")]
    request = CreatePartitionsRequest(topics, timeout_ms=60_000)
    response = await client.request(ApiKey.CREATE_PARTITIONS, version, request)
    return response.throttle_time_ms, [each.error_code for each in response.results]


async def limited(running: RunningSpu) -> WireClient:
    """Returns a client with a quota of 2 changes a second."""
    client = WireClient((await running.client()).connection, "limited")
    await alter(await running.client(), quota({"controller_mutation_rate": 2.0}, client_id="limited"))
    return client


def is_about(outcome: Outcome, throttle_ms: int, errors: list[int]) -> bool:
    """Whether the outcome has these errors, and about this throttle time: some of it is over already."""
    return throttle_ms - 1000 <= outcome[0] <= throttle_ms and outcome[1] == errors


@pytest.mark.parametrize(
    ("version", "throttle_ms", "errors"), [(7, 5000, [0, THROTTLED]), (6, 5000, [0, THROTTLED]), (5, 20_000, [0, 0])]
)
async def test_topics_are_created_until_the_quota_is_used_up(
    autojump_clock: object, version: int, throttle_ms: int, errors: list[int]
) -> None:
    async with running_spu(broker=WINDOW) as running:
        assert is_about(await create(await limited(running), version), throttle_ms, errors)


@pytest.mark.parametrize(("version", "throttle_ms", "errors"), [(6, 5000, [0, THROTTLED]), (4, 20_000, [0, 0])])
async def test_topics_are_deleted_until_the_quota_is_used_up(
    autojump_clock: object, version: int, throttle_ms: int, errors: list[int]
) -> None:
    async with running_spu(broker=WINDOW) as running:
        assert await create(await running.client(), 7) == (0, [0, 0])
        assert is_about(await delete(await limited(running), version), throttle_ms, errors)


@pytest.mark.parametrize(("version", "throttle_ms", "errors"), [(3, 5000, [0, THROTTLED]), (2, 20_000, [0, 0])])
async def test_partitions_are_added_until_the_quota_is_used_up(
    autojump_clock: object, version: int, throttle_ms: int, errors: list[int]
) -> None:
    async with running_spu(broker=WINDOW) as running:
        assert await create(await running.client(), 7, partitions=1) == (0, [0, 0])
        assert is_about(await add_partitions(await limited(running), version), throttle_ms, errors)


async def test_a_client_without_a_quota_is_not_throttled(autojump_clock: object) -> None:
    async with running_spu(broker=WINDOW) as running:
        await limited(running)
        client = await running.client()
        assert await create(client, 7) == (0, [0, 0])
        assert await add_partitions(client, 3) == (0, [0, 0])
        assert await delete(client, 6) == (0, [0, 0])


async def test_a_refused_client_is_muted_and_then_succeeds(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu(broker=WINDOW) as running:
        client = await limited(running)
        throttle_ms, _ = await create(client, 7)
        began = trio.current_time()
        assert await create(client, 7) == (0, [ErrorCode.TOPIC_ALREADY_EXISTS, 0])
        assert trio.current_time() - began >= throttle_ms / 1000
        scraped = await running.scraped()
        labels = 'client_id="limited",quota="controller_mutation_rate",user=""'
        assert f"tailrace_throttled_responses_total{{{labels}}} 1.0" in scraped


async def test_topics_that_are_not_created_do_not_count(autojump_clock: object) -> None:
    async with running_spu(broker=WINDOW) as running:
        client = await limited(running)
        taken = [CreatableTopic(name="x/y", num_partitions=20, replication_factor=1)]
        for _ in range(3):
            response = await client.request(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=taken))
            assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert response.throttle_time_ms == 0


def test_nothing_is_counted_without_a_quota() -> None:
    mutations = CountedMutations(None)
    mutations.take(1_000_000)
    assert mutations.throttle_ms == 0
