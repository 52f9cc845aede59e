"""DescribeLogDirs: sizes of replicas, and of the volume."""

import pytest
from simulation.client import WireClient
from spus import RunningSpu, batch, running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


async def describe(
    client: WireClient, *topics: tuple[str, list[int]], everything: bool = False, version: int = 5
) -> DescribeLogDirsResult:
    asked = None if everything else [DescribableLogDirTopic(name, partitions) for name, partitions in topics]
    response = await client.request(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(asked))
    assert response.error_code == 0
    (result,) = response.results
    found: DescribeLogDirsResult = result
    return found


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


async def with_records(running: RunningSpu) -> tuple[WireClient, int]:
    """Returns a client, and how many bytes partition 1 of `t` takes."""
    await running.create("t", 2)
    await running.create("u")
    client = await running.client()
    records = batch(b"a", b"b")
    data = [PartitionProduceData(1, records)]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData("t", partition_data=data)])
    await client.request(ApiKey.PRODUCE, 9, request)
    return client, len(records)


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_version_lists_every_replica_with_its_size(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client, size = await with_records(running)
        result = await describe(client, everything=True, version=version)
        assert (result.error_code, result.log_dir) == (0, running.spu.data_directory)
        assert sizes(result) == {("t", 0): 0, ("t", 1): size, ("u", 0): 0}
        for topic in result.topics:
            for partition in topic.partitions:
                assert (partition.offset_lag, partition.is_future_key) == (0, False)


async def test_the_volume_has_room(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        running.world.files.room_bytes = 12345
        result = await describe(client, everything=True)
        assert (result.total_bytes, result.usable_bytes, result.is_cordoned) == (2**40, 12345, False)
        running.world.files.room_bytes = None


async def test_only_requested_and_existing_replicas_are_listed(autojump_clock: object) -> None:
    async with running_spu() as running:
        client, size = await with_records(running)
        result = await describe(client, ("t", [1, 1, 9, -1]), ("nope", [0]), ("u", []))
        assert sizes(result) == {("t", 1): size}
        assert [len(topic.partitions) for topic in result.topics] == [1]
        assert sizes(await describe(client)) == {}
