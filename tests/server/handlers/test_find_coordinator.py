"""FindCoordinator: the leader of the group's partition, in every version."""

from uuid import UUID

import pytest
import trio
from clusters import cluster_of
from hosts import ControllerHost, request_of
from spus import running_spu

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.coordinators import GROUPS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from tailrace.cluster.specs import Endpoint, PartitionSpec, SpuSpec, TopicSpec
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.server.handlers.find_coordinator import handle

FEW = {"offsets.topic.num.partitions": "3"}
INVALID = ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(4))
async def test_one_group_in_each_version(autojump_clock: object, version: int) -> None:
    async with running_spu(broker=FEW) as running:
        client = await running.client()
        answer = await client.request(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest(key="g"))
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "spu-1", 9005)


@pytest.mark.parametrize("version", range(4, 7))
async def test_many_groups_in_each_version(autojump_clock: object, version: int) -> None:
    async with running_spu(broker=FEW) as running:
        client = await running.client()
        request = FindCoordinatorRequest(coordinator_keys=["g", "h", "g"])
        answers = (await client.request(ApiKey.FIND_COORDINATOR, version, request)).coordinators
        assert [(each.key, each.error_code, each.node_id) for each in answers] == [("g", 0, 1), ("h", 0, 1)]


@pytest.mark.parametrize("version", range(1, 7))
async def test_key_types_without_coordinators(autojump_clock: object, version: int) -> None:
    async with running_spu(broker=FEW) as running:
        client = await running.client()
        request = FindCoordinatorRequest(key="g", key_type=9, coordinator_keys=["g"])
        response = await client.request(ApiKey.FIND_COORDINATOR, version, request)
        answer = response if version < 4 else response.coordinators[0]
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (INVALID, -1, "", -1)
        assert not running.spu.cluster.topics


async def test_the_first_request_creates_the_internal_topic_as_configured(autojump_clock: object) -> None:
    configs = {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "1048576"}
    async with running_spu(broker=configs) as running:
        client = await running.client()
        await client.request(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
        topic = running.spu.cluster.topics[GROUPS_TOPIC]
        assert topic.internal
        assert [len(each.replicas) for each in topic.partitions] == [1] * 7
        assert topic.configs["cleanup.policy"] == "compact"
        assert topic.configs["segment.bytes"] == "1048576"


@pytest.mark.parametrize(("spus", "replicas", "replicas_min"), [(1, 1, 1), (2, 2, 1), (3, 3, 2)])
async def test_the_coordinator_of_a_transactional_id_leads_its_own_topic(
    autojump_clock: object, spus: int, replicas: int, replicas_min: int
) -> None:
    request = FindCoordinatorRequest(key="t", key_type=1)
    async with cluster_of(*range(1, spus + 1)) as cluster:
        told = [
            (await client.request(ApiKey.FIND_COORDINATOR, 1, request)).node_id
            for client in (await cluster.client_of(1), await cluster.client_of_sc())
        ]
        leaders = await cluster.leaders(1, TRANSACTIONS_TOPIC)
        assert told == [leaders[partition_of("t", 50)][0]] * 2
        topic = cluster.spus[1].spu.cluster.topics[TRANSACTIONS_TOPIC]
        assert topic.internal
        assert [len(each.replicas) for each in topic.partitions] == [replicas] * 50
        configs = ("cleanup.policy", "compression.type", "min.insync.replicas", "segment.bytes")
        assert [topic.configs[each] for each in configs] == ["compact", "uncompressed", str(replicas_min), "104857600"]
        assert GROUPS_TOPIC not in cluster.spus[1].spu.cluster.topics


async def test_every_server_names_the_same_coordinators(autojump_clock: object) -> None:
    groups = [f"group-{number}" for number in range(20)]
    request = FindCoordinatorRequest(coordinator_keys=groups)
    async with cluster_of(1, 2, 3) as cluster:
        told = []
        for client in (await cluster.client_of(2), await cluster.client_of_sc(), await cluster.client_of(1)):
            answers = (await client.request(ApiKey.FIND_COORDINATOR, 4, request)).coordinators
            told.append([each.node_id for each in answers])
        leaders = await cluster.leaders(1, GROUPS_TOPIC)
        assert told == [[leaders[partition_of(each, len(leaders))][0] for each in groups]] * 3
        assert set(told[0]) == {1, 2, 3}


async def test_an_offline_coordinator_is_replaced_by_an_online_one(autojump_clock: object) -> None:
    async with cluster_of(1, 2) as cluster:
        groups = [f"group-{number}" for number in range(20)]
        request = FindCoordinatorRequest(coordinator_keys=groups)
        client = await cluster.client_of(1)
        await client.request(ApiKey.FIND_COORDINATOR, 4, request)
        await cluster.kill_spu(2)
        await trio.sleep(10)
        answers = (await client.request(ApiKey.FIND_COORDINATOR, 4, request)).coordinators
        assert {(each.error_code, each.node_id) for each in answers} == {(0, 1)}


def test_a_coordinator_without_the_listener_of_the_client_is_not_available() -> None:
    host, context = ControllerHost(), request_of(ApiKey.FIND_COORDINATOR)
    host.cluster.put_spu(SpuSpec(SpuId(1), None, (Endpoint("PUBLIC", "one", 9), Endpoint("PUBLIC_1", "host", 9))))
    host.cluster.put_spu(SpuSpec(SpuId(2), None, (Endpoint("PUBLIC", "two", 9),)))
    replicas = (SpuId(2), SpuId(1))
    topic_id = UUID(int=5)
    partition = PartitionSpec(topic_id, GROUPS_TOPIC, 0, SpuId(2), Epoch(0), replicas, replicas)
    host.cluster.put_topic(TopicSpec(topic_id, GROUPS_TOPIC, {}, (partition,), internal=True))

    def told(*, is_chosen: bool) -> tuple[int, str, str | None]:
        context.listener = ConnectedListener("PUBLIC_1", ("host", 9003), is_chosen)
        response = handle(host, context, FindCoordinatorRequest(coordinator_keys=["g"]))
        assert isinstance(response, FindCoordinatorResponse)
        (answer,) = response.coordinators
        return answer.error_code, answer.host, answer.error_message

    reason = "SPU 2 coordinates the group and has no listener PUBLIC_1"
    assert told(is_chosen=True) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "", reason)
    assert told(is_chosen=False) == (0, "two", None)
