"""Tests requests of a scripted Streaming Controller to a whole SPU, also requests that no real one sends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from msgspec.structs import replace
from scripted_sc import SC_ADDRESS, ScriptedSc, accepted, scripted_sc, topic_state
from simulation.client import WireClient
from spus import ADDRESS, World, batch

from tailrace.broker.controller_link.sc_receiver import ELECTIONS_SECONDS_MAX
from tailrace.broker.roles.replica_info_dispatcher import ReplicaInfoDispatcher
from tailrace.broker.spu import Spu
from tailrace.broker.spu_server import SpuServer
from tailrace.broker.spu_storage import StartError
from tailrace.cluster.client_view import NAMED_SECONDS
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import TopicId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, Endpoint, SpuState
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest, Config
from tailrace.protocol.internal.describe_replica_segments import DescribeReplicaSegmentsRequest
from tailrace.protocol.internal.describe_replicas import DescribeReplicasRequest
from tailrace.protocol.internal.register_spu import RegisterSpuRequest
from tailrace.protocol.internal.report_live_replicas import ReportLiveReplicasRequest
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.runtime.settings import ListenerSettings, SpuSettings

TOPIC = TopicId(int=7)
SETTINGS = SpuSettings(1, "/data/spu-1", (ListenerSettings("PUBLIC", ADDRESS),), controllers=(SC_ADDRESS,))


@asynccontextmanager
async def _running(world: World) -> AsyncIterator[tuple[ScriptedSc, Spu]]:
    """An SPU with one topic of one partition, which it leads."""
    server = SpuServer(SETTINGS, world.seams(), structlog.get_logger())
    async with scripted_sc(world.network) as sc, trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        await sc.introduce(1, topic_state(TOPIC, "t"))
        await trio.testing.wait_all_tasks_blocked()
        assert server.spu is not None
        yield sc, server.spu
        server.stop()


async def _produce(client: WireClient, *, acks: int = -1, timeout_ms: int = 1000) -> PartitionProduceResponse:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch(b"a"))])]
    response = await client.request(
        ApiKey.PRODUCE, 9, ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)
    )
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


async def test_clients_are_let_in_once_everything_is_known(autojump_clock: object) -> None:
    world = World()
    server = SpuServer(SETTINGS, world.seams(), structlog.get_logger())
    async with scripted_sc(world.network) as sc, trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        await sc.registered()
        client = WireClient(await world.network.connect(ADDRESS))
        answers = []

        @nursery.start_soon
        async def produce() -> None:
            answers.append(await _produce(client))
            server.stop()

        await trio.sleep(60)
        assert answers == []
        await sc.introduce(1, topic_state(TOPIC, "t"))
    assert [answer.base_offset for answer in answers] == [0]


async def test_what_it_leads_is_reported_and_again_after_a_reconnect(autojump_clock: object) -> None:
    world = World()
    async with _running(world) as (sc, _):
        sc.drop()
        await sc.introduce(1, topic_state(TOPIC, "t"))
        await trio.sleep(1)
        reports = sc.heard_of(ReportLiveReplicasRequest)
    assert [[(each.topic_id, each.epoch) for each in report.partitions] for report in reports] == [[(TOPIC, 0)]] * 2


async def test_an_election_tells_producers_that_wait_and_stamps_what_comes_after(autojump_clock: object) -> None:
    world = World()
    async with _running(world) as (sc, spu):
        await sc.introduce(1, topic_state(TOPIC, "t", replicas=(1, 2), live=(1, 2)))
        client = WireClient(await world.network.connect(ADDRESS))
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def waits_for_the_other_replica() -> None:
                answer = await _produce(client, timeout_ms=60_000)
                assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

            await trio.testing.wait_all_tasks_blocked()
            assert spu.replicas.leading("t", 0).log.log_end == 1
            await sc.introduce(1, topic_state(TOPIC, "t", leader=2, epoch=1, replicas=(1, 2), live=(2,)))
        assert (await _produce(client, acks=1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await sc.introduce(1, topic_state(TOPIC, "t", epoch=2))
        assert (await _produce(client)).base_offset == 1
        assert list(spu.replicas.leading("t", 0).log.epochs) == [(0, 0), (2, 1)]


async def test_acknowledged_by_all_waits_for_the_other_live_replicas(autojump_clock: object) -> None:
    world = World()
    async with _running(world) as (sc, _):
        await sc.introduce(1, topic_state(TOPIC, "t", replicas=(1, 2), live=(1, 2)))
        client = WireClient(await world.network.connect(ADDRESS))
        assert (await _produce(client, acks=1)).base_offset == 0
        assert (await _produce(client, timeout_ms=2000)).error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_configs_that_make_no_sense_are_refused_with_a_sentence(autojump_clock: object) -> None:
    async with _running(World()) as (sc, spu):
        specs = ApplySpecsRequest(own_configs=[Config("num.partitions", "many")])
        answer = await sc.ask(specs)
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert "num.partitions" in answer.error_message
        answer = await sc.ask(replace(specs, own_configs=[Config("num.partitions", "3")]))
        assert answer.error_code == ErrorCode.NONE
        assert spu.broker_configs.settings.partitions_default == 3


async def test_how_its_replicas_stand(autojump_clock: object) -> None:
    async with _running(World()) as (sc, _):
        (described,) = (await sc.ask(DescribeReplicasRequest())).replicas
        assert (described.topic_id, described.partition, described.is_leader, described.log_end) == (TOPIC, 0, True, 0)


async def test_the_segments_of_a_replica(autojump_clock: object) -> None:
    async with _running(World()) as (sc, _):
        described = await sc.ask(DescribeReplicaSegmentsRequest(TOPIC, 0, segments_max=9))
        assert [(each.base, each.end, each.state) for each in described.segments] == [(0, 0, "open")]


async def test_clients_are_served_while_the_controller_is_away(autojump_clock: object) -> None:
    world = World()
    server = SpuServer(SETTINGS, world.seams(), structlog.get_logger())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        async with scripted_sc(world.network) as sc:
            await sc.introduce(1, topic_state(TOPIC, "t"))
        await trio.sleep(60)
        client = WireClient(await world.network.connect(ADDRESS))
        assert (await _produce(client)).base_offset == 0
        server.stop()


async def test_clients_see_the_mirror(autojump_clock: object) -> None:
    async with _running(World()) as (_, spu):
        cluster = spu.cluster
        assert (cluster.cluster_id, list(cluster.spus), list(cluster.topics)) == ("cluster", [1], ["t"])


async def test_ready_is_an_spu_whose_partitions_are_led(autojump_clock: object) -> None:
    world = World()
    server = SpuServer(SETTINGS, world.seams(), structlog.get_logger())
    async with scripted_sc(world.network) as sc, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def serve() -> None:
            async with trio.open_nursery() as serving:
                await serving.start(server.run)
                started.set()

        started = trio.Event()
        await sc.introduce(1, topic_state(TOPIC, "t", leader=-1))
        await trio.sleep(ELECTIONS_SECONDS_MAX / 2)
        assert not started.is_set()
        await sc.introduce(1, topic_state(TOPIC, "t", epoch=1))
        await trio.testing.wait_all_tasks_blocked()
        assert started.is_set()
        server.stop()


async def test_an_election_that_does_not_come_is_not_waited_for_long(autojump_clock: object) -> None:
    world = World()
    server = SpuServer(SETTINGS, world.seams(), structlog.get_logger())
    async with scripted_sc(world.network) as sc, trio.open_nursery() as nursery:
        nursery.start_soon(sc.introduce, 1, topic_state(TOPIC, "t", leader=-1))
        with trio.fail_after(ELECTIONS_SECONDS_MAX + 0.1):
            await nursery.start(server.run)
        server.stop()


async def test_an_spu_that_is_stopped_before_it_knows_anything_stops_and_leaves_all_as_it_was(
    autojump_clock: object,
) -> None:
    world = World()
    async with _running(world):
        pass
    for _ in range(2):  # the clean-shutdown mark is still valid for the next start
        server = SpuServer(SETTINGS, world.seams(), structlog.get_logger())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0)
            server.stop()
            assert await nursery.start(server.run) is None
    async with _running(world) as (sc, spu):
        assert sc.heard_of(RegisterSpuRequest)[0].stopped_cleanly
        assert spu.metrics.recovered_replicas == 0


async def test_a_duplicate_does_not_start_and_leaves_all_as_it_was(autojump_clock: object) -> None:
    world = World()
    async with _running(world):
        pass
    refusal = replace(
        accepted(), error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION, error_message="another process is SPU 1"
    )
    async with scripted_sc(world.network) as sc:
        sc.answers[InternalApiKey.REGISTER_SPU] = lambda message: refusal
        with pytest.raises(StartError, match="another process is SPU 1"):
            await SpuServer(SETTINGS, world.seams(), structlog.get_logger()).run()
    async with _running(world) as (sc, _):
        assert sc.heard_of(RegisterSpuRequest)[0].stopped_cleanly


async def _tell_of_another(sc: ScriptedSc, *, is_online: bool) -> None:
    other = SpuState(2, None, is_online, [Endpoint("PUBLIC", "spu-2", 9005)])
    sc.version += 1
    await sc.ask(ApplyMetadataRequest(False, sc.version, "cluster", 1, [other]))


async def test_leaders_learn_which_spus_went_offline_and_came_back(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[str, int]] = []
    for name in ("on_offline", "on_online"):
        monkeypatch.setattr(ReplicaInfoDispatcher, name, lambda self, spu, name=name: heard.append((name, spu)))
    async with _running(World()) as (sc, _):
        heard.clear()
        for is_online in (True, False, False, True, True):
            await _tell_of_another(sc, is_online=is_online)
        assert heard == [("on_online", 2), ("on_offline", 2), ("on_online", 2)]


async def test_clients_go_on_to_hear_for_a_while_where_a_lost_spu_was(autojump_clock: object) -> None:
    async with _running(World()) as (sc, _):
        client = WireClient(await sc.network.connect(ADDRESS))

        async def named() -> list[int]:
            answer = await client.request(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
            return [broker.node_id for broker in answer.brokers]

        await _tell_of_another(sc, is_online=True)
        await trio.sleep(60)
        await _tell_of_another(sc, is_online=False)
        assert await named() == [1, 2]
        await trio.sleep(NAMED_SECONDS - 1)
        assert await named() == [1, 2]
        await trio.sleep(2)
        assert await named() == [1]
