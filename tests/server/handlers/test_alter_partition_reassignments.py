"""AlterPartitionReassignments: every partition has a result, and what was accepted continues afterwards."""

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of
from spus import running_spu
from trio.testing import MockClock

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

Rows = dict[int, list[int] | None]


def asking(topic: str, rows: Rows, *, may_change_factor: bool = True) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(number, row) for number, row in rows.items()]
    return AlterPartitionReassignmentsRequest(5000, may_change_factor, [ReassignableTopic(topic, partitions)])


async def reassign(cluster: ClusterOfSpus, topic: str, rows: Rows) -> dict[int, int]:
    client = await cluster.client_of(1)
    response = await client.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, asking(topic, rows))
    return codes_of(response)


def codes_of(response: AlterPartitionReassignmentsResponse) -> dict[int, int]:
    assert response.error_code == ErrorCode.NONE
    (answered,) = response.responses
    return {each.partition_index: each.error_code for each in answered.partitions}


async def ongoing(cluster: ClusterOfSpus, *named: tuple[str, int]) -> dict[tuple[str, int], tuple[list[int], ...]]:
    topics = [ListPartitionReassignmentsTopics(topic, [number]) for topic, number in named]
    request = ListPartitionReassignmentsRequest(5000, topics or None)
    client = await cluster.client_of(1)
    response: ListPartitionReassignmentsResponse = await client.request(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request)
    assert response.error_code == ErrorCode.NONE
    return {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(2))
async def test_every_partition_has_a_result(autojump_clock: MockClock, version: int) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        client = await running.client()
        request = asking("t", {0: [1], 1: [9], 7: [1]})
        response = await client.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request)
        assert codes_of(response) == {
            0: ErrorCode.NONE,
            1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_another_number_of_replicas_may_be_forbidden_from_version_1_on(autojump_clock: MockClock) -> None:
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "t", 1, 1)
        client = await cluster.client_of(2)
        request = asking("t", {0: [1, 2]}, may_change_factor=False)
        response = await client.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
        assert codes_of(response) == {0: ErrorCode.INVALID_REPLICATION_FACTOR}


async def test_a_running_reassignment_is_listed_and_may_be_cancelled(autojump_clock: MockClock) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "t", 2, 1)
        leader, _ = (await cluster.leaders(1, "t"))[0]
        away = 3 if leader == 2 else 2
        await cluster.stop_spu(away)
        assert await reassign(cluster, "t", {0: [away]}) == {0: ErrorCode.NONE}
        expected = {("t", 0): ([away, leader], [away], [leader])}
        assert await ongoing(cluster) == expected
        assert await ongoing(cluster, ("t", 0), ("u", 3)) == expected
        assert await ongoing(cluster, ("t", 1)) == {}
        assert await reassign(cluster, "t", {0: None, 1: None}) == {
            0: ErrorCode.NONE,
            1: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        }
        await trio.sleep(1)
        assert await ongoing(cluster) == {}
        assert (await cluster.leaders(1, "t"))[0][0] == leader
