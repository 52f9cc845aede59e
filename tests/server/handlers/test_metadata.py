"""Metadata: topics by name, by id, and all of them, and topics that the request creates."""

from uuid import UUID

import pytest
from simulation.client import WireClient
from spus import ADDRESS, RunningSpu, running_spu

from tailrace.cluster.client_view import CLUSTER_OPERATIONS, OPERATIONS_UNKNOWN, TOPIC_OPERATIONS
from tailrace.cluster.specs import WaitingTopic
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_TOPIC_ID
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

BY_NAME_OR_ID = 12


def named(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def identified(*ids: UUID) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]


async def ask(
    client: WireClient,
    topics: list[MetadataRequestTopic] | None,
    version: int = BY_NAME_OR_ID,
    *,
    create: bool = False,
    operations: bool = False,
) -> MetadataResponse:
    request = MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=operations,
    )
    response: MetadataResponse = await client.request(ApiKey.METADATA, version, request)
    return response


def errors(response: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


def only(response: MetadataResponse) -> MetadataResponseTopic:
    (topic,) = response.topics
    return topic


async def two_topics(running: RunningSpu) -> None:
    await running.create("a", 3)
    await running.create("b")


async def test_a_topic_comes_with_its_partitions(autojump_clock: object) -> None:
    async with running_spu() as running:
        spec = await running.create("t", 3)
        response = await ask(await running.client(), named("t"), 13)
        topic = only(response)
        assert (response.error_code, topic.error_code, topic.name, topic.topic_id) == (0, 0, "t", spec.id)
        assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2]
        for partition in topic.partitions:
            assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 0)
            assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])


async def test_the_cluster_is_described_by_the_address_the_client_reached(autojump_clock: object) -> None:
    async with running_spu() as running:
        response = await ask(await running.client(), [])
        assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
            (1, ADDRESS.host, ADDRESS.port)
        ]
        assert response.controller_id == 1
        assert response.cluster_id == running.spu.cluster.cluster_id
        assert len(response.cluster_id or "") == 22


@pytest.mark.parametrize(
    ("version", "topics", "expected"), [(0, [], ["a", "b"]), (1, [], []), (1, None, ["a", "b"]), (13, None, ["a", "b"])]
)
async def test_naming_none_means_all_or_none(
    autojump_clock: object, version: int, topics: list[MetadataRequestTopic] | None, expected: list[str]
) -> None:
    async with running_spu() as running:
        await two_topics(running)
        response = await ask(await running.client(), topics, version)
        assert [topic.name for topic in response.topics] == expected


@pytest.mark.parametrize("version", range(14))
async def test_every_version_describes_an_existing_and_a_missing_topic(autojump_clock: object, version: int) -> None:
    async with running_spu(broker={"auto.create.topics.enable": "false"}) as running:
        await running.create("t")
        response = await ask(await running.client(), named("t", "nope"), version)
        assert errors(response) == [("t", 0), ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_ids_find_topics_and_names_are_not_needed(autojump_clock: object) -> None:
    async with running_spu() as running:
        spec, unknown = await running.create("t"), UUID(int=99)
        response = await ask(await running.client(), identified(spec.id, unknown))
        assert errors(response) == [("t", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
        assert response.topics[1].topic_id == unknown


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_are_refused_where_kafka_refuses_them(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        spec = await running.create("t")
        asked = [MetadataRequestTopic(topic_id=spec.id, name="")]
        assert only(await ask(await running.client(), asked, version)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_topic_is_described_once_however_often_it_is_named(autojump_clock: object) -> None:
    async with running_spu() as running:
        spec = await running.create("t")
        assert errors(await ask(await running.client(), named("t", "t") + identified(spec.id))) == [("t", 0)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (None, ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("create", [True, False])
async def test_an_invalid_name(autojump_clock: object, name: str | None, expected: ErrorCode, create: bool) -> None:
    async with running_spu() as running:
        assert only(await ask(await running.client(), named(name), create=create)).error_code == expected
        assert not running.spu.cluster.topics


async def test_a_missing_topic_is_created_and_described_when_the_client_asks_again(autojump_clock: object) -> None:
    async with running_spu(broker={"num.partitions": "4"}) as running:
        await running.create("there")
        client = await running.client()
        first = await ask(client, named("there", "new"), create=True)
        assert errors(first) == [("there", 0), ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert (first.topics[1].partitions, first.topics[1].topic_id) == ([], NO_TOPIC_ID)
        response = await ask(client, named("there", "new"), create=True)
        assert errors(response) == [("there", 0), ("new", 0)]
        assert len(response.topics[1].partitions) == 4
        assert running.spu.replicas.find("new", 3) is not None


async def test_many_clients_that_ask_for_the_same_missing_topic_create_it_once(autojump_clock: object) -> None:
    async with running_spu() as running:
        clients = [await running.client() for _ in range(5)]
        for expected in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE):
            for client in clients:
                request = MetadataRequest(topics=named("new"))
                await client.send(client.encode(ApiKey.METADATA, BY_NAME_OR_ID, request))
            found = {
                (each.error_code, each.topic_id) for client in clients for each in (await client.response()).topics
            }
            created = running.spu.cluster.topics["new"].id
            assert found == {(expected, NO_TOPIC_ID if expected else created)}


@pytest.mark.parametrize(
    ("enabled", "wanted", "name"),
    [
        ("false", True, "new"),
        ("true", False, "new"),
        ("true", True, "__consumer_offsets"),
        ("true", True, "__transaction_state"),
    ],
)
async def test_a_topic_is_created_only_if_client_and_config_allow_it(
    autojump_clock: object, enabled: str, wanted: bool, name: str
) -> None:
    async with running_spu(broker={"auto.create.topics.enable": enabled}) as running:
        topic = only(await ask(await running.client(), named(name), create=wanted))
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert topic.is_internal == name.startswith("__")
        assert not running.spu.cluster.topics


async def test_refused_topics_say_why(autojump_clock: object) -> None:
    async with running_spu(broker={"default.replication.factor": "3"}) as running:
        topic = only(await ask(await running.client(), named("new"), create=True))
        assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


async def test_operations_are_listed_only_when_requested(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        silent, told = await ask(client, named("t"), 10), await ask(client, named("t"), 10, operations=True)
        assert only(silent).topic_authorized_operations == silent.cluster_authorized_operations == OPERATIONS_UNKNOWN
        assert only(told).topic_authorized_operations == TOPIC_OPERATIONS == 3576
        assert told.cluster_authorized_operations == CLUSTER_OPERATIONS == 8096


async def test_a_topic_that_waits_is_not_created_again_and_has_the_error_that_tells_why() -> None:
    async with running_spu() as running:
        client = await running.client()
        wide = WaitingTopic(UUID(int=7), "wide", ErrorCode.INVALID_REPLICATION_FACTOR)
        running.spu.cluster.put_waiting_topics([wide])
        for create in (False, True):
            answer = await ask(client, named("wide"), create=create)
            assert errors(answer) == [("wide", ErrorCode.INVALID_REPLICATION_FACTOR)]
        assert errors(await ask(client, None)) == []
