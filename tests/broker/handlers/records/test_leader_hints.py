"""Which leader Produce and Fetch name to a client that asked the wrong SPU."""

import pytest
import trio
from msgspec.structs import replace
from spus import RunningSpu, batch, led_elsewhere, newest, running_spu

from tailrace.broker.handlers.records.leader_hints import endpoint_of, leader_elsewhere
from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.specs import NO_LEADER, Endpoint, SpuSpec, TopicSpec
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

OTHER = SpuSpec(SpuId(2), "rack-b", (Endpoint("PUBLIC", "spu-2", 9005),))
LISTENER = ConnectedListener("PUBLIC", ("spu-1", 9005))


async def _created(running: RunningSpu, **configs: str) -> TopicSpec:
    topic = await running.create("t", configs=configs)
    running.spu.cluster.put_spu(OTHER)
    return topic


def _produce(topic: TopicSpec) -> ProduceRequest:
    data = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=[PartitionProduceData(0, batch(b"a"))])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])


def _fetch(topic: TopicSpec, epoch: int = -1) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=epoch)
    return FetchRequest(max_wait_ms=9000, min_bytes=1, topics=[FetchTopic(topic.name, topic.id, [wanted])])


def _hint(answer: PartitionData | PartitionProduceResponse) -> tuple[int, int] | None:
    return (
        None if answer.current_leader is None else (answer.current_leader.leader_id, answer.current_leader.leader_epoch)
    )


@pytest.mark.parametrize("version", [9, 10, newest(ApiKey.PRODUCE)])
async def test_a_producer_learns_who_leads_and_its_address(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await _created(running)
        replica = running.spu.replicas.leading("t", 0)
        led_elsewhere(replica)
        response = await client.request(ApiKey.PRODUCE, version, _produce(topic))
        (answer,) = response.responses[0].partition_responses
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        is_told = version >= 10
        assert _hint(answer) == ((2, replica.spec.epoch) if is_told else None)
        endpoints = [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        assert endpoints == ([(2, "spu-2", 9005, "rack-b")] if is_told else [])


async def test_a_producer_whose_leader_is_replaced_learns_who_leads_now(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await _created(running, **{"flush.messages": "1"})
        running.world.files.sync_seconds = lambda: 5.0
        replica = running.spu.replicas.leading("t", 0)
        version = newest(ApiKey.PRODUCE)
        await client.send(client.encode(ApiKey.PRODUCE, version, _produce(topic)))
        await trio.testing.wait_all_tasks_blocked()
        assert replica.waiting_acknowledgements.waiting
        led_elsewhere(replica)
        replica.refuse_waiters(replica.not_leader())
        response = await client.response()
        (answer,) = response.responses[0].partition_responses
        assert (answer.error_code, _hint(answer)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (2, replica.spec.epoch))
        assert [each.node_id for each in response.node_endpoints] == [2]


@pytest.mark.parametrize("leader", [1, 2], ids=["the one that is asked", "another one"])
@pytest.mark.parametrize("version", [15, 16, newest(ApiKey.FETCH)])
async def test_a_consumer_with_an_old_epoch_learns_who_leads(autojump_clock: object, version: int, leader: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await _created(running)
        replica = running.spu.replicas.leading("t", 0)
        before = replica.spec.epoch
        replica.use_spec(replace(replica.spec, leader=SpuId(leader), epoch=Epoch(before + 1)))
        response = await client.request(ApiKey.FETCH, version, _fetch(topic, before))
        (answer,) = response.responses[0].partitions
        assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
        is_told = version >= 16
        assert _hint(answer) == ((leader, before + 1) if is_told else None)
        assert [each.node_id for each in response.node_endpoints] == ([leader] if is_told else [])


async def test_the_newest_known_leader_is_named(autojump_clock: object) -> None:
    async with running_spu() as running:
        topic = await _created(running)
        spu, replica = running.spu, running.spu.replicas.leading("t", 0)
        assert leader_elsewhere(spu, "t", 0) is None, "it leads itself"
        assert leader_elsewhere(spu, "t", 1) is None, "there is none"
        newer = replace(topic.partitions[0], leader=SpuId(2), epoch=Epoch(replica.spec.epoch + 1))
        spu.cluster.put_topic(replace(topic, partitions=(newer,)))
        assert leader_elsewhere(spu, topic.id, 0) == newer
        replica.use_spec(replace(newer, epoch=Epoch(newer.epoch + 1), leader=NO_LEADER))
        assert leader_elsewhere(spu, "t", 0) is None
        spu.cluster.put_topic(replace(topic, partitions=(replace(newer, epoch=replica.spec.epoch),)))
        assert leader_elsewhere(spu, "t", 0) is None, "no process leads it at this epoch"


async def test_an_spu_that_is_unreachable_on_the_listener_has_no_endpoint(autojump_clock: object) -> None:
    async with running_spu() as running:
        running.spu.cluster.put_spu(OTHER)
        assert endpoint_of(running.spu, 2, LISTENER) == (2, "spu-2", 9005, "rack-b")
        assert endpoint_of(running.spu, 2, ConnectedListener("INSIDE", ("spu-1", 9005), is_chosen=True)) is None
        running.spu.cluster.put_spu(replace(OTHER, online=False))
        assert endpoint_of(running.spu, 2, LISTENER) is None
        assert endpoint_of(running.spu, 3, LISTENER) is None
