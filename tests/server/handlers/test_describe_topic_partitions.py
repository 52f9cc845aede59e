"""DescribeTopicPartitions: pages in order, and the arrays that must never be null."""

from uuid import UUID

import pytest
from simulation.client import WireClient
from spus import RunningSpu, running_spu

from tailrace.cluster.specs import WaitingTopic
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

Page = tuple[list[tuple[str | None, int, list[int]]], tuple[str, int] | None]


async def describe(
    client: WireClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], limit, None if cursor is None else Cursor(*cursor)
    )
    response: DescribeTopicPartitionsResponse = await client.request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    return response


async def page(client: WireClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Page:
    """Returns name, error and partitions of each topic, and where the next page starts."""
    response = await describe(client, *names, limit=limit, cursor=cursor)
    topics = [
        (topic.name, topic.error_code, [each.partition_index for each in topic.partitions]) for topic in response.topics
    ]
    following = response.next_cursor
    return topics, None if following is None else (following.topic_name, following.partition_index)


async def test_a_topic_that_waits_has_the_error_that_tells_why() -> None:
    async with running_spu() as running:
        client = await running.client()
        running.spu.cluster.put_waiting_topics(
            [WaitingTopic(UUID(int=7), "wide", ErrorCode.INVALID_REPLICATION_FACTOR)]
        )
        assert await page(client, "wide") == ([("wide", ErrorCode.INVALID_REPLICATION_FACTOR, [])], None)


async def two_topics(running: RunningSpu) -> WireClient:
    await running.create("b", 4)
    await running.create("a", 2)
    return await running.client()


async def test_a_topic_with_all_its_facts_and_no_nulls(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await two_topics(running)
        (topic,) = (await describe(client, "a")).topics
        assert (topic.error_code, topic.name, topic.is_internal) == (0, "a", False)
        assert topic.topic_id == running.spu.cluster.topics["a"].id
        assert topic.topic_authorized_operations == 3576
        for partition in topic.partitions:
            assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 0)
            assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
            assert partition.eligible_leader_replicas == []
            assert partition.last_known_elr == []


@pytest.mark.parametrize("names", [(), ("b", "a"), ("a", "b", "a")])
async def test_topics_come_by_name_and_once(autojump_clock: object, names: tuple[str, ...]) -> None:
    async with running_spu() as running:
        client = await two_topics(running)
        assert await page(client, *names) == ([("a", 0, [0, 1]), ("b", 0, [0, 1, 2, 3])], None)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, ([("a", 0, [0])], ("a", 1))),
        (0, ([("a", 0, [0])], ("a", 1))),
        (-1, ([("a", 0, [0])], ("a", 1))),
        (2, ([("a", 0, [0, 1])], ("b", 0))),
        (5, ([("a", 0, [0, 1]), ("b", 0, [0, 1, 2])], ("b", 3))),
        (6, ([("a", 0, [0, 1]), ("b", 0, [0, 1, 2, 3])], None)),
    ],
)
async def test_a_page_ends_at_the_limit(autojump_clock: object, limit: int, expected: Page) -> None:
    async with running_spu() as running:
        assert await page(await two_topics(running), "a", "b", limit=limit) == expected


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
async def test_pages_add_up_to_everything_once(autojump_clock: object, limit: int) -> None:
    async with running_spu() as running:
        client = await two_topics(running)
        found: list[tuple[str | None, int]] = []
        cursor = None
        while True:
            topics, cursor = await page(client, limit=limit, cursor=cursor)
            found += [(name, partition) for name, _, partitions in topics for partition in partitions]
            if cursor is None:
                break
        assert found == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("b", 3)]


async def test_the_spu_has_a_limit_of_its_own(autojump_clock: object) -> None:
    async with running_spu(broker={"max.request.partition.size.limit": "3"}) as running:
        _, cursor = await page(await two_topics(running))
        assert cursor == ("b", 1)


@pytest.mark.parametrize(
    ("names", "cursor", "expected"),
    [
        (("a", "b"), ("b", 2), ([("b", 0, [2, 3])], None)),
        (("a",), ("a", 99), ([("a", 0, [])], None)),
        ((), ("aa", 0), ([("b", 0, [0, 1, 2, 3])], None)),
        ((), ("aa", 2), ([("b", 0, [0, 1, 2, 3])], None)),
        (("aa", "b"), ("aa", 2), ([("aa", 3, []), ("b", 0, [0, 1, 2, 3])], None)),
        (("a",), ("b", 0), ([("a", ErrorCode.INVALID_REQUEST, [])], None)),
        (("a",), ("a", -1), ([("a", ErrorCode.INVALID_REQUEST, [])], None)),
    ],
)
async def test_a_cursor_says_where_the_next_page_starts(
    autojump_clock: object, names: tuple[str, ...], cursor: tuple[str, int], expected: Page
) -> None:
    async with running_spu() as running:
        assert await page(await two_topics(running), *names, cursor=cursor) == expected


async def test_topics_that_do_not_exist(autojump_clock: object) -> None:
    async with running_spu() as running:
        topics, _ = await page(await two_topics(running), "nope", "a/b", "")
        assert topics == [
            ("", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
            ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ]
