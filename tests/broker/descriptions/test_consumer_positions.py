"""Tests the description of positions, which is read from the headers of a real log."""

import pytest
from simulation.client import WireClient
from spus import RunningSpu, batch, led_elsewhere, running_spu

from tailrace.broker.descriptions import consumer_positions as positions
from tailrace.broker.descriptions.consumer_positions import describe_positions, timestamp_after
from tailrace.broker.groups.common.group_lag import NO_TIMESTAMP, NOTHING_THERE
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.control_batches import hole
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.describe_positions import (
    AskedPartition,
    AskedTopic,
    DescribedPartition,
    DescribePositionsRequest,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TIME_MS = 1_700_000_000_000


async def _produce(client: WireClient, records: bytes) -> None:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]
    await client.request(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))


async def _filled(running: RunningSpu, **configs: str) -> None:
    await running.create("t", configs={name.replace("_", "."): value for name, value in configs.items()})
    client = await running.client()
    for age, values in ((300, (b"a", b"b")), (200, (b"c",)), (100, (b"d",))):
        await _produce(client, batch(*values, timestamp=TIME_MS - age))


async def _asked(running: RunningSpu, *offsets: int, partition: int = 0) -> DescribedPartition:
    topic = AskedTopic(running.spu.cluster.topics["t"].id, [AskedPartition(partition, list(offsets))])
    response = await describe_positions(running.spu.replicas, DescribePositionsRequest([topic]))
    (described,) = response.topics[0].partitions
    assert described.partition == partition
    return described


async def test_each_offset_has_the_age_of_its_batch(autojump_clock: object) -> None:
    async with running_spu() as running:
        await _filled(running)
        found = await _asked(running, 0, 1, 2, 3, 4, 99)
        assert (found.error_code, found.end) == (0, 4)
        ages = [TIME_MS - each for each in found.timestamps_ms[:4]]
        assert ages == [300, 300, 200, 100]
        assert found.timestamps_ms[4:] == [NOTHING_THERE, NOTHING_THERE]


async def test_nothing_is_looked_up_where_only_the_end_is_asked(autojump_clock: object) -> None:
    async with running_spu() as running:
        await _filled(running)
        assert await _asked(running) == DescribedPartition(0, 0, 4, [])


async def test_the_time_is_ours_where_the_topic_says_so(autojump_clock: object) -> None:
    async with running_spu() as running:
        await _filled(running, message_timestamp_type="LogAppendTime")
        assert (await _asked(running, 0)).timestamps_ms == [running.world.clock.now_ms()]


async def test_what_consumers_pass_over_is_not_waiting_for_them(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        await _filled(running)
        log = running.spu.replicas.leading("t", 0).log
        for base in (4, 5):
            gap = hole(base, base + 1, 0)
            log.append(gap, read_header(gap))
        assert timestamp_after(log, 4, log.log_end) == NOTHING_THERE
        await _produce(await running.client(), batch(b"e", timestamp=NO_TIMESTAMP))
        assert timestamp_after(log, 4, log.log_end) == NO_TIMESTAMP
        monkeypatch.setattr(positions, "HEADERS_MAX", 2)
        assert timestamp_after(log, 4, log.log_end) == NOTHING_THERE


async def test_an_spu_that_does_not_lead_describes_nothing(autojump_clock: object) -> None:
    async with running_spu() as running:
        await _filled(running)
        assert await _asked(running, 0, partition=9) == DescribedPartition(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        replica = running.spu.replicas.leading("t", 0)
        replica.is_recovering = True
        assert await _asked(running, 0) == DescribedPartition(0, ErrorCode.OFFSET_NOT_AVAILABLE)
        led_elsewhere(replica)
        assert await _asked(running, 0) == DescribedPartition(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.go_offline("it broke")
        assert await _asked(running, 0) == DescribedPartition(0, ErrorCode.KAFKA_STORAGE_ERROR)
