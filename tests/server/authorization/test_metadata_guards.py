"""Metadata, DescribeCluster and DescribeTopicPartitions with access rules."""

import pytest
from authorized_spu import AuthorizedSpu, authorized_spu, rule

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import PatternType
from tailrace.security.acls.acl_codes import ResourceType as Res

DESCRIBE, READ = (Res.TOPIC, Op.DESCRIBE), (Res.TOPIC, Op.READ)
CLUSTER_DESCRIBE, CLUSTER_ALTER = (Res.CLUSTER, Op.DESCRIBE), (Res.CLUSTER, Op.ALTER)
DENIED, UNKNOWN = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _metadata(authorized: AuthorizedSpu, version: int, *names: str, all_: bool = False) -> MetadataResponse:
    asked = None if all_ and version else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(asked, allow_auto_topic_creation=True)
    response: MetadataResponse = await authorized.request(ApiKey.METADATA, request, version)
    return response


def _codes(response: MetadataResponse | DescribeTopicPartitionsResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", [0, 1, 5, 9, 13])
async def test_of_all_topics_a_client_gets_those_that_it_may_describe(autojump_clock: object, version: int) -> None:
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        await authorized.create("other")
        assert _codes(await _metadata(authorized, version, all_=True)) == {}
        authorized.allow(READ)
        assert _codes(await _metadata(authorized, version, all_=True)) == {"topic": ErrorCode.NONE}


@pytest.mark.parametrize("version", [0, 1, 5, 9, 13])
async def test_named_topics_are_refused_whether_they_exist_or_not(autojump_clock: object, version: int) -> None:
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        await authorized.create("other")
        response = await _metadata(authorized, version, "topic", "missing")
        assert _codes(response) == {"topic": DENIED, "missing": DENIED}
        assert not any(topic.partitions for topic in response.topics)
        authorized.allow(DESCRIBE)
        response = await _metadata(authorized, version, "topic", "other")
        assert _codes(response) == {"topic": ErrorCode.NONE, "other": DENIED}


async def test_an_id_does_not_tell_the_name(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        topic_id = authorized.spu.cluster.topics["topic"].id
        request = MetadataRequest([MetadataRequestTopic(topic_id, None)])
        (topic,) = (await authorized.request(ApiKey.METADATA, request)).topics
        assert (topic.error_code, topic.name, topic.topic_id) == (DENIED, None, topic_id)
        authorized.allow(DESCRIBE)
        (topic,) = (await authorized.request(ApiKey.METADATA, request)).topics
        assert (topic.error_code, topic.name) == (ErrorCode.NONE, "topic")


@pytest.mark.parametrize("create", [(Res.TOPIC, Op.CREATE), (Res.CLUSTER, Op.CREATE)])
async def test_a_missing_topic_is_created_for_clients_that_may_create_it(
    autojump_clock: object, create: tuple[Res, Op]
) -> None:
    """testCreatePermissionMetadataRequestAutoCreate, and the cases that write to and read from a new topic."""
    async with authorized_spu() as authorized:
        authorized.allow(READ)
        assert _codes(await _metadata(authorized, 13, "topic")) == {"topic": DENIED}
        assert "topic" not in authorized.spu.cluster.topics
        authorized.allow(create)
        await _metadata(authorized, 13, "topic")
        assert _codes(await _metadata(authorized, 13, "topic")) == {"topic": ErrorCode.NONE}


async def test_without_topics_the_cluster_has_an_id_and_brokers_for_everybody(autojump_clock: object) -> None:
    """testClusterId"""
    async with authorized_spu() as authorized:
        response = await _metadata(authorized, 13)
        assert response.cluster_id
        assert response.brokers
        assert response.topics == []


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_metadata_has_the_operations_on_topics_and_on_the_cluster(autojump_clock: object, version: int) -> None:
    """testMetadataClusterAuthorizedOperations, with and without DESCRIBE on the cluster"""
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        request = MetadataRequest(None, True, True, True)
        authorized.allow(READ)
        response = await authorized.request(ApiKey.METADATA, request, version)
        assert response.cluster_authorized_operations == 0
        assert response.topics[0].topic_authorized_operations == 1 << Op.READ | 1 << Op.DESCRIBE
        authorized.allow(CLUSTER_DESCRIBE, CLUSTER_ALTER, (Res.TOPIC, Op.ALL))
        response = await authorized.request(ApiKey.METADATA, request, version)
        assert response.cluster_authorized_operations == 1 << Op.DESCRIBE | 1 << Op.ALTER
        assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_describe_cluster_has_the_operations_on_the_cluster(autojump_clock: object, version: int) -> None:
    """testDescribeClusterClusterAuthorizedOperations, with and without DESCRIBE on the cluster"""
    async with authorized_spu() as authorized:
        request = DescribeClusterRequest(True)
        response = await authorized.request(ApiKey.DESCRIBE_CLUSTER, request, version)
        assert (response.error_code, response.cluster_authorized_operations) == (ErrorCode.NONE, 0)
        authorized.allow(CLUSTER_DESCRIBE, CLUSTER_ALTER)
        response = await authorized.request(ApiKey.DESCRIBE_CLUSTER, request, version)
        assert response.cluster_authorized_operations == 1 << Op.DESCRIBE | 1 << Op.ALTER
        without = await authorized.request(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(), version)
        assert without.cluster_authorized_operations == -(2**31)


async def _pages(
    authorized: AuthorizedSpu, *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
    response: DescribeTopicPartitionsResponse = await authorized.request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
    return response


async def test_pages_have_the_topics_that_a_client_may_describe(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        for name in ("a", "b", "c", "d"):
            await authorized.create(name)
        assert _codes(await _pages(authorized)) == {}
        for name in ("a", "c", "d"):
            authorized.allow(rule(*DESCRIBE, name))
        first = await _pages(authorized, limit=2)
        assert _codes(first) == {"a": ErrorCode.NONE, "c": ErrorCode.NONE}
        assert first.next_cursor == Cursor("d", 0)
        assert first.topics[0].topic_authorized_operations == 1 << Op.DESCRIBE
        # A cursor at a topic that the client may not see any more leads to the next one.
        assert _codes(await _pages(authorized, cursor=Cursor("b", 0))) == {"c": ErrorCode.NONE, "d": ErrorCode.NONE}
        named = await _pages(authorized, "b", "d", "x")
        assert _codes(named) == {"d": ErrorCode.NONE, "b": DENIED, "x": DENIED}
        authorized.allow(rule(*DESCRIBE, "x"))
        assert _codes(await _pages(authorized, "b", "x")) == {"x": UNKNOWN, "b": DENIED}
        wrong = await _pages(authorized, "a", cursor=Cursor("b", 0))
        assert _codes(wrong) == {"a": ErrorCode.INVALID_REQUEST}


async def test_prefixes_show_topics(autojump_clock: object) -> None:
    """testPrefixAcls"""
    async with authorized_spu() as authorized:
        await authorized.create("foobar")
        authorized.allow(
            rule(*DESCRIBE, "f", pattern=PatternType.PREFIXED),
            rule(*DESCRIBE, "foob", pattern=PatternType.PREFIXED, who="User:other"),
        )
        assert _codes(await _metadata(authorized, 13, "foobar")) == {"foobar": ErrorCode.NONE}


async def test_a_rule_for_an_address_shows_a_topic_there(autojump_clock: object) -> None:
    """testHostAddressBasedAcls"""
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        client = await authorized.client()
        request = MetadataRequest([MetadataRequestTopic(name="topic")])
        authorized.allow(rule(*DESCRIBE, host="10.0.0.1"))
        assert _codes(await client.request(ApiKey.METADATA, 13, request)) == {"topic": DENIED}
        authorized.allow(rule(*DESCRIBE, host=client.connection.local.host))
        assert _codes(await client.request(ApiKey.METADATA, 13, request)) == {"topic": ErrorCode.NONE}
