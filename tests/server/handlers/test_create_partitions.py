"""CreatePartitions: every topic of the request has a result."""

import pytest
from simulation.client import WireClient
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def wanted(name: str, count: int, *spus: list[int]) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(name, count, [CreatePartitionsAssignment(each) for each in spus] or None)


async def add(
    client: WireClient, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[tuple[str, int, bool]]:
    """Returns the name, the error code, and whether there is a message, of each result."""
    request = CreatePartitionsRequest(list(topics), 1000, validate_only)
    results = (await client.request(ApiKey.CREATE_PARTITIONS, version, request)).results
    return [(result.name, result.error_code, bool(result.error_message)) for result in results]


@pytest.mark.parametrize("version", range(4))
async def test_every_version_adds_partitions_and_lists_every_topic(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        await running.create("a", 2)
        await running.create("b", 2)
        results = await add(await running.client(), wanted("a", 4), wanted("b", 1), wanted("nope", 3), version=version)
        assert results == [
            ("a", 0, False),
            ("b", ErrorCode.INVALID_PARTITIONS, True),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        ]
        assert len(running.spu.cluster.topics["a"].partitions) == 4
        assert len(running.spu.cluster.topics["b"].partitions) == 2
        assert running.spu.replicas.find("a", 3) is not None


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("t", 2), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 0), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", -1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (wanted("t", 4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 3, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 3, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_partitions_that_cannot_be_added(
    autojump_clock: object, topic: CreatePartitionsTopic, code: ErrorCode
) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        assert await add(await running.client(), topic) == [("t", code, True)]
        assert len(running.spu.cluster.topics["t"].partitions) == 2


async def test_a_topic_that_is_named_twice_is_refused_once(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        results = await add(await running.client(), wanted("t", 3), wanted("t", 4))
        assert results == [("t", ErrorCode.INVALID_REQUEST, True)]
        assert len(running.spu.cluster.topics["t"].partitions) == 1


async def test_partitions_that_are_only_validated_do_not_exist(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        assert await add(await running.client(), wanted("t", 3, [1], [1]), validate_only=True) == [("t", 0, False)]
        assert len(running.spu.cluster.topics["t"].partitions) == 1
