"""Groups as administrators see and change them, with three admin clients."""

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPlace
from kafka import OffsetAndMetadata
from kafka import TopicPartition as Place
from kafka.admin import MemberToRemove, OffsetSpec
from kafka.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NoError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from waiting import wait_until

from .members import ONE_OF_EACH_CLIENT, PATIENCE_SECONDS, wait_until_shared

PARTITIONS = 3
KAFKA_PYTHON, AIOKAFKA, CONFLUENT, CONSUMER_PROTOCOL = ONE_OF_EACH_CLIENT


@pytest.fixture
def topic(create_topic):
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def places(topic):
    return {(topic, partition) for partition in range(PARTITIONS)}


@pytest.fixture
def abandoned_group(topic, places, group, fill, start_member):
    """Returns a group that has read 10 records of each partition, and whose members have left."""

    def leave(flavour):
        member = start_member(flavour, topic)
        wait_until_shared([member], places)
        fill(topic, 10, PARTITIONS)
        wait_until(lambda: set(member.committed.values()) == {10} and len(member.committed) == PARTITIONS)
        member.leave()
        return group

    return leave


def listed(admin, group, **filters):
    return [each for each in admin.list_groups(**filters) if each["group_id"] == group]


def committed(admin, group):
    return {tuple(place): kept.offset for place, kept in admin.list_group_offsets(group)[group].items()}


def test_a_classic_group_is_listed_and_described(topic, places, group, start_member, admin):
    members = [start_member(KAFKA_PYTHON, topic, name=name) for name in ("one", "two")]
    wait_until_shared(members, places)
    (found,) = listed(admin, group)
    assert (found["protocol_type"], found["group_state"], found["group_type"]) == ("consumer", "Stable", "classic")
    assert listed(admin, group, states_filter=["Stable"], types_filter=["classic"])
    assert not listed(admin, group, states_filter=["Empty"])
    assert not listed(admin, group, types_filter=["consumer"])
    described = admin.describe_groups([group])[group]
    assert described["error"] is None
    assert (described["group_state"], described["protocol_type"], described["protocol_data"]) == (
        *("Stable", "consumer", "range"),
    )
    assert sorted(member["client_id"] for member in described["members"]) == ["one", "two"]
    for member in described["members"]:
        assert member["member_id"].startswith(member["client_id"] + "-")
        assert member["client_host"] == "/127.0.0.1"
        assert member["member_metadata"]["topics"] == [topic]
        (share,) = member["member_assignment"]["assigned_partitions"]
        mine = {(topic, partition) for partition in share["partitions"]}
        assert mine == next(each.assigned for each in members if each.name == member["client_id"])
    for member in members:
        member.leave()
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    assert listed(admin, group, states_filter=["Empty"])


@pytest.mark.parametrize("flavour", [CONFLUENT, CONSUMER_PROTOCOL], ids=str)
def test_librdkafka_lists_and_describes_both_kinds(topic, places, group, start_member, librdkafka_admin, flavour):
    kind = ConsumerGroupType.CONSUMER if flavour is CONSUMER_PROTOCOL else ConsumerGroupType.CLASSIC
    other_kind = ConsumerGroupType.CLASSIC if flavour is CONSUMER_PROTOCOL else ConsumerGroupType.CONSUMER
    members = [start_member(flavour, topic, name=name) for name in ("one", "two")]
    wait_until_shared(members, places)

    def found(**filters):
        answer = librdkafka_admin.list_consumer_groups(request_timeout=10, **filters).result(20)
        assert not answer.errors
        return [(each.state, each.type) for each in answer.valid if each.group_id == group]

    wait_until(lambda: found() == [(ConsumerGroupState.STABLE, kind)], what="the group is stable")
    assert found(states={ConsumerGroupState.STABLE}, types={kind})
    assert not found(states={ConsumerGroupState.EMPTY})
    assert not found(types={other_kind})
    described = librdkafka_admin.describe_consumer_groups([group], request_timeout=10)[group].result(20)
    assert (described.state, described.type) == (ConsumerGroupState.STABLE, kind)
    assert described.partition_assignor == flavour.assignor
    assert described.coordinator.port
    shares = {
        member.client_id: {(each.topic, each.partition) for each in member.assignment.topic_partitions}
        for member in described.members
    }
    assert shares == {member.name: member.assigned for member in members}


def test_unknown_groups_are_dead(group, admin, librdkafka_admin):
    described = librdkafka_admin.describe_consumer_groups([group], request_timeout=10)[group]
    try:
        assert described.result(20).state == ConsumerGroupState.DEAD
    except KafkaException as error:
        assert error.args[0].name() == "GROUP_ID_NOT_FOUND"
    assert not listed(admin, group)
    assert admin.delete_groups([group]) == {group: GroupIdNotFoundError.__name__}


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_groups_are_deleted_when_their_members_are_gone(topic, places, group, start_member, admin, flavour):
    member = start_member(flavour, topic)
    wait_until_shared([member], places)
    assert admin.delete_groups([group]) == {group: NonEmptyGroupError.__name__}
    member.leave()
    wait_until(lambda: admin.delete_groups([group]) == {group: "OK"}, PATIENCE_SECONDS, "the group is deleted")
    assert not listed(admin, group)
    assert admin.list_group_offsets(group) == {group: {}}


@pytest.mark.parametrize("flavour", [KAFKA_PYTHON, CONSUMER_PROTOCOL], ids=str)
def test_offsets_are_altered_reset_and_deleted(topic, abandoned_group, admin, start_member, flavour):
    group = abandoned_group(flavour)
    first, second, third = (Place(topic, partition) for partition in range(PARTITIONS))
    assert committed(admin, group) == {first: 10, second: 10, third: 10}
    answers = admin.alter_group_offsets(group, {first: OffsetAndMetadata(2, "moved", -1)})
    assert answers == {first: NoError}
    assert admin.list_group_offsets(group)[group][first].metadata == "moved"
    admin.reset_group_offsets(group, {second: OffsetSpec.EARLIEST})
    assert admin.delete_group_offsets(group, [third]) == {third: NoError}
    assert committed(admin, group) == {first: 2, second: 0}
    member = start_member(flavour, topic)
    wait_until(lambda: len(member.values) == 8 + 10 + 10, PATIENCE_SECONDS, "the member continues at the new offsets")


@pytest.mark.parametrize("flavour", [KAFKA_PYTHON, CONSUMER_PROTOCOL], ids=str)
def test_offsets_of_a_working_group_cannot_be_changed(
    topic, create_topic, places, group, start_member, fill, admin, flavour
):
    other = Place(create_topic(), 0)
    assert admin.alter_group_offsets(group, {other: OffsetAndMetadata(7, "", -1)}) == {other: NoError}
    member = start_member(flavour, topic)
    wait_until_shared([member], places)
    fill(topic, 10, PARTITIONS)
    wait_until(lambda: set(member.committed.values()) == {10} and len(member.committed) == PARTITIONS)
    here = Place(topic, 0)
    (error,) = admin.alter_group_offsets(group, {here: OffsetAndMetadata(2, "", -1)}).values()
    assert error is UnknownMemberIdError
    answers = admin.delete_group_offsets(group, [here, other])
    assert answers == {here: GroupSubscribedToTopicError, other: NoError}
    assert committed(admin, group) == dict.fromkeys(places, 10)


def test_librdkafka_alters_and_lists_offsets(topic, abandoned_group, librdkafka_admin):
    group = abandoned_group(CONFLUENT)

    def offsets():
        wanted = [ConsumerGroupTopicPartitions(group)]
        kept = librdkafka_admin.list_consumer_group_offsets(wanted, request_timeout=10)[group].result(20)
        return {each.partition: each.offset for each in kept.topic_partitions}

    assert offsets() == {0: 10, 1: 10, 2: 10}
    altered = ConsumerGroupTopicPartitions(group, [LibrdkafkaPlace(topic, 1, 4), LibrdkafkaPlace(topic, 2, 0)])
    librdkafka_admin.alter_consumer_group_offsets([altered], request_timeout=10)[group].result(20)
    assert offsets() == {0: 10, 1: 4, 2: 0}
    librdkafka_admin.delete_consumer_groups([group], request_timeout=10)[group].result(20)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        librdkafka_admin.delete_consumer_groups([group], request_timeout=10)[group].result(20)


def test_aiokafka_lists_and_describes(topic, places, group, bootstrap, start_member):
    member = start_member(AIOKAFKA, topic)
    wait_until_shared([member], places)
    member.rest()

    async def story():
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            assert (group, "consumer") in await admin.list_consumer_groups()
            (answer,) = await admin.describe_consumer_groups([group])
            ((error, name, state, protocol_type, _, members, *_),) = answer.groups
            assert (error, name, state, protocol_type, len(members)) == (0, group, "Stable", "consumer", 1)
            assert await admin.list_consumer_group_offsets(group) == {}
        finally:
            await admin.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))


def test_members_are_removed_by_an_administrator(topic, places, group, start_member, admin):
    static = start_member(KAFKA_PYTHON, topic, instance="static", session_ms=60_000)
    wait_until_shared([static], places)
    static.kill()
    assert admin.describe_groups([group])[group]["members"]
    answers = admin.remove_group_members(group, [MemberToRemove(group_instance_id="static", reason="it is gone")])
    assert list(answers.values()) == [NoError]
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    (error,) = admin.remove_group_members(group, [MemberToRemove(member_id="nobody")]).values()
    assert error is UnknownMemberIdError
