"""OffsetForLeaderEpoch on a whole SPU that was killed once, so that its log has two epochs."""

import pytest
import trio
from spus import World, batch, running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def produced(records: bytes) -> ProduceRequest:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)


@pytest.mark.parametrize(
    ("asked", "epoch", "end"),
    [(0, 0, 2), (1, 1, 3), (7, -1, -1), (-1, -1, -1)],
    ids=["the first epoch", "the current one", "one that has not been", "none"],
)
async def test_an_epoch_ends_where_the_next_one_begins(
    autojump_clock: object, asked: int, epoch: int, end: int
) -> None:
    world = World()
    with trio.CancelScope() as killed:
        async with running_spu(world) as running:
            await running.create("t")
            await (await running.client()).request(ApiKey.PRODUCE, 9, produced(batch(b"a", b"b")))
            killed.cancel()
            await trio.lowlevel.checkpoint()
    async with running_spu(world.crashed("all")) as running:
        client = await running.client()
        await client.request(ApiKey.PRODUCE, 9, produced(batch(b"c")))
        partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=asked)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])]
        )
        found = (await client.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)).topics[0].partitions[0]
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, end)
        partition.current_leader_epoch = 0
        fenced = (await client.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)).topics[0].partitions[0]
        assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_merging_leader_does_not_tell_where_the_log_ends(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        await client.request(ApiKey.PRODUCE, 9, produced(batch(b"a", b"b", b"c")))
        replica = running.spu.replicas.leading("t", 0)
        replica.is_merging = True
        partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=0)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])]
        )

        async def ask() -> tuple[int, int]:
            found = (await client.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)).topics[0].partitions[0]
            return found.error_code, found.end_offset

        for high_watermark in (2, 3, 4):
            replica.high_watermark = high_watermark
            assert await ask() == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        replica.is_merging = False
        assert await ask() == (0, 3)


async def test_a_leader_without_a_lease_may_not_know_an_epoch(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=1)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])]
        )

        async def ask() -> int:
            answer = await client.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)
            return int(answer.topics[0].partitions[0].error_code)

        running.spu.replicas.leading("t", 0).is_alone = False
        running.spu.lease.end = trio.current_time()
        assert await ask() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        running.spu.lease.end = trio.current_time() + 1
        assert await ask() == ErrorCode.NONE
