"""Groups with access rules: cases of Kafka's AuthorizerIntegrationTest about groups and their offsets."""

from typing import Any

import pytest
from authorized_spu import AuthorizedSpu, authorized_spu, rule

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res

READ, DESCRIBE, DELETE = (Res.GROUP, Op.READ), (Res.GROUP, Op.DESCRIBE), (Res.GROUP, Op.DELETE)
TOPIC_READ, TOPIC_DESCRIBE, TOPIC_WRITE = (Res.TOPIC, Op.READ), (Res.TOPIC, Op.DESCRIBE), (Res.TOPIC, Op.WRITE)
CLUSTER_DESCRIBE = (Res.CLUSTER, Op.DESCRIBE)
NONE, OF_GROUP, OF_TOPIC = (
    ErrorCode.NONE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
OFFSET = 15


async def _commit(authorized: AuthorizedSpu, group: str = "group", *topics: str, partitions: int = 1) -> list[int]:
    """Commits an offset of the first partitions of the topics."""
    asked = [
        OffsetCommitRequestTopic(
            name, partitions=[OffsetCommitRequestPartition(each, OFFSET) for each in range(partitions)]
        )
        for name in topics or ("topic",)
    ]
    response = await authorized.request(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group, topics=asked), 9)
    return [each.error_code for topic in response.topics for each in topic.partitions]


async def _forget(authorized: AuthorizedSpu) -> tuple[int, list[int]]:
    topics = [OffsetDeleteRequestTopic("topic", [OffsetDeleteRequestPartition(0)])]
    response = await authorized.request(ApiKey.OFFSET_DELETE, OffsetDeleteRequest("group", topics))
    return response.error_code, [each.error_code for topic in response.topics for each in topic.partitions]


async def test_a_commit_needs_the_group_and_the_topic(autojump_clock: object) -> None:
    """testCommitWith: NoAccess, NoTopicAccess, TopicWrite, TopicDescribe, NoGroupAccess, TopicAndGroupRead"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()
        for rules, expected in (
            ((), OF_GROUP),
            ((TOPIC_READ,), OF_GROUP),
            ((READ,), OF_TOPIC),
            ((READ, TOPIC_WRITE), OF_TOPIC),
            ((READ, TOPIC_DESCRIBE), OF_TOPIC),
            ((READ, TOPIC_READ), NONE),
        ):
            authorized.remove_all()
            authorized.allow(*rules)
            assert await _commit(authorized) == [expected], rules
        await authorized.create("other")
        assert sorted(await _commit(authorized, "group", "topic", "other")) == [NONE, OF_TOPIC]


@pytest.mark.parametrize("version", [1, 5, 7])
async def test_offsets_of_one_group_need_the_group_and_the_topics(autojump_clock: object, version: int) -> None:
    """testOffsetFetchWith: NoAccess, NoGroupAccess, NoTopicAccess, TopicDescribe, TopicAndGroupRead, and all topics"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create("topic")
        with authorized.unlimited():
            assert await _commit(authorized) == [NONE]
        named = OffsetFetchRequest("group", [OffsetFetchRequestTopic("topic", [0])])
        authorized.allow(TOPIC_READ)
        response = await authorized.request(ApiKey.OFFSET_FETCH, named, version)
        assert OF_GROUP in (response.error_code, *(each.partitions[0].error_code for each in response.topics))
        authorized.remove_all()
        authorized.allow(DESCRIBE)
        ((offset,),) = [
            each.partitions for each in (await authorized.request(ApiKey.OFFSET_FETCH, named, version)).topics
        ]
        assert (offset.error_code, offset.committed_offset) == (OF_TOPIC, -1)
        if version > 1:
            every = OffsetFetchRequest("group", None)
            response = await authorized.request(ApiKey.OFFSET_FETCH, every, version)
            assert (response.error_code, response.topics) == (NONE, [])
        authorized.allow(TOPIC_DESCRIBE)
        for request in (named, OffsetFetchRequest("group", None)) if version > 1 else (named,):
            response = await authorized.request(ApiKey.OFFSET_FETCH, request, version)
            assert response.topics[0].partitions[0].committed_offset == OFFSET


@pytest.mark.parametrize("version", [8, 10])
async def test_offsets_of_several_groups_are_refused_one_by_one(autojump_clock: object, version: int) -> None:
    """testOffsetFetchMultipleGroupsAuthorization, testOffsetFetchAllTopicPartitionsAuthorization"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        names = ["topic1", "topic2", "topic3"]
        for number, name in enumerate(names, 1):
            await authorized.create(name, number)
        ids = {name: topic.id for name, topic in authorized.spu.cluster.topics.items() if name in names}
        by_id = {each: name for name, each in ids.items()}
        asked = {"group1": names[:1], "group2": names[:2], "group3": names, "group4": None, "group5": None}
        with authorized.unlimited():
            for group, topics in asked.items():
                for name in topics or names:
                    codes = await _commit(authorized, group, name, partitions=names.index(name) + 1)
                    assert codes == [NONE] * (names.index(name) + 1)

        def wanted(topics: list[str] | None) -> list[OffsetFetchRequestTopics] | None:
            return topics and [
                OffsetFetchRequestTopics(name, ids[name], list(range(names.index(name) + 1))) for name in topics
            ]

        async def fetched() -> dict[str, Any]:
            groups = [OffsetFetchRequestGroup(group, topics=wanted(topics)) for group, topics in asked.items()]
            response = await authorized.request(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=groups), version)
            return {
                group.group_id: group.error_code
                or {
                    topic.name or by_id[topic.topic_id]: {
                        (each.error_code, each.committed_offset) for each in topic.partitions
                    }
                    for topic in group.topics
                }
                for group in response.groups
            }

        found, denied = {(NONE, OFFSET)}, {(OF_TOPIC, -1)}
        authorized.allow(*(rule(*READ, f"group{number}") for number in (1, 2, 4)), rule(*TOPIC_DESCRIBE, "topic1"))
        assert await fetched() == {
            "group1": {"topic1": found},
            "group2": {"topic1": found, "topic2": denied},
            "group3": OF_GROUP,
            "group4": {"topic1": found},
            "group5": OF_GROUP,
        }
        authorized.allow(rule(*READ, "group3"), rule(*READ, "group5"), rule(*TOPIC_DESCRIBE, "topic2"))
        assert await fetched() == {
            "group1": {"topic1": found},
            "group2": {"topic1": found, "topic2": found},
            "group3": {"topic1": found, "topic2": found, "topic3": denied},
            "group4": {"topic1": found, "topic2": found},
            "group5": {"topic1": found, "topic2": found},
        }
        authorized.allow(rule(*TOPIC_DESCRIBE, "topic3"))
        assert await fetched() == {
            group: dict.fromkeys(names if topics is None else topics, found) for group, topics in asked.items()
        }


async def test_groups_are_listed_for_whom_may_describe_them(autojump_clock: object) -> None:
    """testListGroupApiWithAndWithoutListGroupAcls"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()
        with authorized.unlimited():
            await _commit(authorized, "group")
            await _commit(authorized, "other group")

        async def listed() -> set[str]:
            response = await authorized.request(ApiKey.LIST_GROUPS, ListGroupsRequest())
            assert response.error_code == NONE
            return {group.group_id for group in response.groups}

        assert await listed() == set()
        authorized.allow(READ)
        assert await listed() == {"group"}
        authorized.remove_all()
        authorized.allow(CLUSTER_DESCRIBE)
        assert await listed() == {"group", "other group"}


async def test_described_groups_have_the_operations_that_are_allowed(autojump_clock: object) -> None:
    """testDescribeGroupApiWithNoGroupAcl, testDescribeGroupApiWithGroupDescribe, and authorized operations"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()
        with authorized.unlimited():
            await _commit(authorized)
        request = DescribeGroupsRequest(["group", "other"], include_authorized_operations=True)
        response = await authorized.request(ApiKey.DESCRIBE_GROUPS, request)
        assert [group.error_code for group in response.groups] == [OF_GROUP] * 2
        authorized.allow(READ)
        response = await authorized.request(ApiKey.DESCRIBE_GROUPS, request)
        group, other = response.groups
        assert (group.group_id, group.error_code, group.group_state) == ("group", NONE, "Empty")
        assert group.authorized_operations == 1 << Op.READ | 1 << Op.DESCRIBE
        assert (other.group_id, other.error_code) == ("other", OF_GROUP)


async def test_groups_and_their_offsets_are_deleted_with_permission_only(autojump_clock: object) -> None:
    """testDeleteGroupApi… and testDeleteGroupOffsets…, with and without the rules"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()

        async def deleted() -> int:
            response = await authorized.request(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(["group"]))
            code: int = response.results[0].error_code
            return code

        assert await deleted() == OF_GROUP
        assert await _forget(authorized) == (OF_GROUP, [])
        authorized.allow(READ, TOPIC_READ)
        assert await _commit(authorized) == [NONE]
        assert await _forget(authorized) == (OF_GROUP, [])
        assert await deleted() == OF_GROUP
        authorized.remove(TOPIC_READ)
        authorized.allow(DELETE)
        assert await _forget(authorized) == (NONE, [OF_TOPIC])
        authorized.allow(TOPIC_READ)
        assert await _forget(authorized) == (NONE, [NONE])
        assert await _commit(authorized) == [NONE]
        assert await deleted() == NONE


async def test_a_coordinator_is_found_for_those_keys_that_a_client_may_describe(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        authorized.allow(DESCRIBE)
        request = FindCoordinatorRequest(coordinator_keys=["group", "other"])
        response = await authorized.request(ApiKey.FIND_COORDINATOR, request)
        codes = {each.key: each.error_code for each in response.coordinators}
        assert codes["other"] == OF_GROUP
        assert codes["group"] != OF_GROUP


# groups of KIP-848


def _heartbeat(*topics: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        "group", MEMBER, rebalance_timeout_ms=5000, subscribed_topic_names=list(topics), topic_partitions=[]
    )


async def test_a_member_may_name_only_topics_that_it_may_describe(autojump_clock: object) -> None:
    """testConsumerGroupHeartbeatWith: ReadAcl, OperationAll, without; and topics that may not be described"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()

        async def code(*topics: str) -> int:
            found: int = (await authorized.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, _heartbeat(*topics))).error_code
            return found

        assert await code("topic") == OF_GROUP
        for group_rule in (READ, (Res.GROUP, Op.ALL)):
            authorized.remove_all()
            authorized.allow(group_rule)
            assert await code("topic") == OF_TOPIC
            authorized.allow(TOPIC_DESCRIBE)
            assert await code("topic") == NONE


async def test_a_group_is_described_unless_its_members_read_hidden_topics(autojump_clock: object) -> None:
    """testConsumerGroupDescribeWith: DescribeAcl, OperationAll, without; and topics that may not be described"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()
        with authorized.unlimited():
            response = await authorized.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, _heartbeat("topic"))
            assert response.error_code == NONE

        async def described() -> Any:
            request = ConsumerGroupDescribeRequest(["group"], include_authorized_operations=True)
            (group,) = (await authorized.request(ApiKey.CONSUMER_GROUP_DESCRIBE, request)).groups
            return group

        group = await described()
        assert (group.error_code, group.members) == (OF_GROUP, [])
        authorized.allow(DESCRIBE)
        group = await described()
        assert (group.error_code, group.members) == (OF_TOPIC, [])
        authorized.allow(TOPIC_DESCRIBE)
        group = await described()
        assert (group.error_code, len(group.members)) == (NONE, 1)
        assert group.authorized_operations == 1 << Op.DESCRIBE


class _PatternMember:
    """A member whose subscription is a pattern, and the partitions that it has."""

    def __init__(self, authorized: AuthorizedSpu, pattern: str, member: str = MEMBER) -> None:
        self._authorized = authorized
        self._member = member
        self._pattern = pattern
        self._epoch = 0
        self._owned: list[TopicPartitions] = []

    async def topics(self) -> list[str]:
        """Sends a heartbeat, takes over what the response assigns, and returns the names of the topics."""
        names = {topic.id: name for name, topic in self._authorized.spu.cluster.topics.items()}
        request = ConsumerGroupHeartbeatRequest(
            "group",
            self._member,
            self._epoch,
            rebalance_timeout_ms=5000,
            subscribed_topic_names=[],
            subscribed_topic_regex=self._pattern,
            topic_partitions=self._owned,
        )
        response = await self._authorized.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        assert response.error_code == NONE
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._owned = [
                TopicPartitions(each.topic_id, each.partitions) for each in response.assignment.topic_partitions
            ]
        return sorted(names[each.topic_id] for each in self._owned)


async def test_a_pattern_matches_only_topics_that_the_member_may_describe(autojump_clock: object) -> None:
    """testConsumerGroupHeartbeatWithRegex, …WithoutTopicDescribeAcl; a new rule counts at the next heartbeat."""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create("orders-1")
        await authorized.create("orders-2")
        authorized.allow(READ)
        member = _PatternMember(authorized, "orders-.*")
        assert await member.topics() == []
        authorized.allow(rule(*TOPIC_DESCRIBE, "orders-1"))
        assert await member.topics() == ["orders-1"]
        authorized.allow(rule(*TOPIC_DESCRIBE, "orders-2"))
        assert await member.topics() == ["orders-1", "orders-2"]
        authorized.remove(rule(*TOPIC_DESCRIBE, "orders-1"))
        assert await member.topics() == ["orders-2"]


async def test_members_with_the_same_pattern_get_what_all_of_them_may_describe(autojump_clock: object) -> None:
    """testConsumerGroupHeartbeatWithRegexWithDifferentMemberAcls"""
    async with authorized_spu(group_consumer_assignment_interval_ms="0") as authorized:
        await authorized.coordinate()
        await authorized.create(partitions=2)
        authorized.allow(READ, TOPIC_DESCRIBE)
        first, second = _PatternMember(authorized, "top.*"), _PatternMember(authorized, "top.*", "B" * 22)
        assert await first.topics() == ["topic"]
        authorized.remove(TOPIC_DESCRIBE)
        assert await second.topics() == []
        assert await first.topics() == []
        authorized.allow(TOPIC_DESCRIBE)
        for _ in range(3):  # until each knows its own partition, and has given back the other one
            found = [await member.topics() for member in (first, second)]
        assert found == [["topic"], ["topic"]]


async def test_a_pattern_matches_internal_topics_that_the_member_may_describe(autojump_clock: object) -> None:
    """testPatternSubscription: MatchingInternalTopic, MatchingInternalTopicWithDescribeOnlyPermission,
    NotMatchingInternalTopic"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()
        authorized.allow(READ, TOPIC_READ)
        member = _PatternMember(authorized, ".*")
        assert await member.topics() == ["topic"]
        authorized.allow(rule(*TOPIC_DESCRIBE, "__consumer_offsets"))
        assert await member.topics() == ["__consumer_offsets", "topic"]
        partitions = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)]
        fetch = FetchRequest(
            replica_id=-1, max_wait_ms=0, topics=[FetchTopic("__consumer_offsets", partitions=partitions)]
        )

        async def fetched() -> int:
            response = await authorized.request(ApiKey.FETCH, fetch, 12)
            code: int = response.responses[0].partitions[0].error_code
            return code

        assert await fetched() == OF_TOPIC
        authorized.allow(rule(*TOPIC_READ, "__consumer_offsets"))
        assert await fetched() == NONE
