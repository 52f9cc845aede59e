"""Forwarded APIs while the controller is away; tests/server/handlers/ tests what the controller does with them."""

import pytest
import trio
from abandoned_spus import client_of_abandoned_spu

from tailrace.broker.handlers.administration.forwarded_apis import REFUSALS
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_TOPIC_ID, TopicId
from tailrace.protocol.messages import alter_configs
from tailrace.protocol.messages import incremental_alter_configs as incremental
from tailrace.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tailrace.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tailrace.server.handlers import ADMINISTRATIVE


@pytest.mark.parametrize("version", [2, 7])
async def test_create_topics_times_out_for_each_topic_in_the_clients_time(autojump_clock: object, version: int) -> None:
    async with client_of_abandoned_spu() as client:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b")]
        started = trio.current_time()
        response = await client.request(
            ApiKey.CREATE_TOPICS, version, CreateTopicsRequest(topics=topics, timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.REQUEST_TIMED_OUT),
        ("b", ErrorCode.REQUEST_TIMED_OUT),
    ]
    assert response.topics[0].error_message == "the Streaming Controller cannot be reached, or did not finish in time"


TOPIC = TopicId(int=9)
BY_NAME = DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=7000)
BY_EITHER = DeleteTopicsRequest(topics=[DeleteTopicState("a"), DeleteTopicState(None, TOPIC)], timeout_ms=7000)


@pytest.mark.parametrize(
    ("version", "request_", "named"),
    [(1, BY_NAME, [("a", NO_TOPIC_ID), ("b", NO_TOPIC_ID)]), (6, BY_EITHER, [("a", NO_TOPIC_ID), (None, TOPIC)])],
)
async def test_delete_topics_times_out_for_each_topic_in_the_clients_time(
    autojump_clock: object, version: int, request_: DeleteTopicsRequest, named: list[tuple[str | None, TopicId]]
) -> None:
    async with client_of_abandoned_spu() as client:
        started = trio.current_time()
        response = await client.request(ApiKey.DELETE_TOPICS, version, request_)
        assert trio.current_time() - started == pytest.approx(7)
    assert [(topic.name, topic.topic_id) for topic in response.responses] == named
    assert {topic.error_code for topic in response.responses} == {ErrorCode.REQUEST_TIMED_OUT}


async def test_create_partitions_times_out_for_each_topic_in_the_clients_time(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        topics = [CreatePartitionsTopic(name=name, count=4, assignments=None) for name in ("t", "u")]
        started = trio.current_time()
        response = await client.request(
            ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=topics, timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
    assert [(result.name, result.error_code) for result in response.results] == [
        ("t", ErrorCode.REQUEST_TIMED_OUT),
        ("u", ErrorCode.REQUEST_TIMED_OUT),
    ]


async def test_alter_configs_times_out_for_each_resource_after_half_a_minute(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        resources = [alter_configs.AlterConfigsResource(resource_type=2, resource_name=name) for name in ("t", "u")]
        started = trio.current_time()
        response = await client.request(ApiKey.ALTER_CONFIGS, 2, alter_configs.AlterConfigsRequest(resources=resources))
        assert trio.current_time() - started == pytest.approx(30)
    assert [(each.resource_type, each.resource_name, each.error_code) for each in response.responses] == [
        (2, "t", ErrorCode.REQUEST_TIMED_OUT),
        (2, "u", ErrorCode.REQUEST_TIMED_OUT),
    ]


async def test_incremental_alter_configs_times_out_after_half_a_minute(
    autojump_clock: object,
) -> None:
    async with client_of_abandoned_spu() as client:
        resources = [incremental.AlterConfigsResource(resource_type=2, resource_name=name) for name in ("t", "u")]
        started = trio.current_time()
        response = await client.request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            incremental.IncrementalAlterConfigsRequest(resources=resources),
        )
        assert trio.current_time() - started == pytest.approx(30)
    assert [(each.resource_type, each.resource_name, each.error_code) for each in response.responses] == [
        (2, "t", ErrorCode.REQUEST_TIMED_OUT),
        (2, "u", ErrorCode.REQUEST_TIMED_OUT),
    ]


async def test_elect_leaders_times_out_for_each_partition_in_the_clients_time(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        named = [TopicPartitions("t", [0, 3]), TopicPartitions("u", [1])]
        started = trio.current_time()
        response = await client.request(
            ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=named, timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
        everything = await client.request(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None))
        assert (everything.error_code, everything.replica_election_results) == (ErrorCode.REQUEST_TIMED_OUT, [])
    assert [
        (result.topic, [(each.partition_id, each.error_code) for each in result.partition_result])
        for result in response.replica_election_results
    ] == [
        ("t", [(0, ErrorCode.REQUEST_TIMED_OUT), (3, ErrorCode.REQUEST_TIMED_OUT)]),
        ("u", [(1, ErrorCode.REQUEST_TIMED_OUT)]),
    ]


async def test_alter_partition_reassignments_times_out_in_the_clients_time(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        started = trio.current_time()
        response = await client.request(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, AlterPartitionReassignmentsRequest(timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_list_partition_reassignments_times_out_in_the_clients_time(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        started = trio.current_time()
        response = await client.request(
            ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest(timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_every_administrative_api_is_forwarded() -> None:
    assert REFUSALS.keys() == ADMINISTRATIVE


@pytest.mark.parametrize(
    ("api_key", "request_"),
    [
        (ApiKey.CREATE_DELEGATION_TOKEN, CreateDelegationTokenRequest()),
        (ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest()),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenRequest()),
        (ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest()),
    ],
)
async def test_requests_about_tokens_time_out(autojump_clock: object, api_key: ApiKey, request_: object) -> None:
    async with client_of_abandoned_spu() as client:
        response = await client.request(api_key, 2, request_)
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
