"""The life of an SPU's process: where it listens, and how it stops."""

import pytest
import trio
from simulation.client import WireClient
from spus import ADDRESS, batch, running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.server.public_server import DRAIN_SECONDS_MAX

DATA = "/data/spu-1"


def produce_request(records: bytes, *, acks: int = -1, topic: str = "t", timeout_ms: int = 1000) -> ProduceRequest:
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, records)])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)


async def produce(client: WireClient, records: bytes, *, acks: int = -1) -> PartitionProduceResponse:
    response = await client.request(ApiKey.PRODUCE, 9, produce_request(records, acks=acks))
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


async def test_what_was_answered_reaches_the_client_though_it_sends_on_while_it_stops(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await client.send(client.encode(ApiKey.PRODUCE, 9, produce_request(batch(b"a"))))
        await trio.testing.wait_all_tasks_blocked()
        running.server.stop()
        await trio.testing.wait_all_tasks_blocked()
        await client.send(client.encode(ApiKey.PRODUCE, 9, produce_request(batch(b"b"))))
        answer = await client.response()
        assert answer.responses[0].partition_responses[0].base_offset == 0
        assert await client.at_end(), "the second was not handled"


async def test_a_client_that_does_not_leave_does_not_hold_up_a_stop(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu() as running:
        await running.client()
        await trio.testing.wait_all_tasks_blocked()
        started = trio.current_time()
    assert trio.current_time() - started == pytest.approx(DRAIN_SECONDS_MAX)


async def test_nobody_can_connect_once_it_stops(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.client()
        await trio.testing.wait_all_tasks_blocked()
        running.server.stop()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OSError, match=r"."):
            await running.world.network.connect(ADDRESS)
        assert running.spu.metrics.server.open_connections == 1, "it waits for who has not left"
    with pytest.raises(OSError, match=r"."):
        await running.world.network.connect(ADDRESS)


async def test_it_listens_where_it_was_told(autojump_clock: object) -> None:
    async with running_spu() as running:
        assert (await running.world.network.connect(ADDRESS)).remote == ADDRESS
