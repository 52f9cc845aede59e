import pytest
from grouping import GroupWorld

from tailrace.broker.groups.classic.embedded_protocol import (
    partitions_from_names,
    read_assignment,
    read_subscription,
    read_topics,
    write_assignment,
)
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.put_topic("a", 3)
    return world


def metadata(version: int, written_as: int | None = None) -> bytes:
    message = ConsumerProtocolSubscription(["a", "b"], None, [TopicPartition("a", [0, 2])], 7, "rack")
    return (version if written_as is None else written_as).to_bytes(2, "big") + encode_whole(message, version)


@pytest.mark.parametrize("version", range(4))
def test_each_version_says_what_it_can(version: int) -> None:
    subscription = read_subscription(metadata(version))
    assert subscription.topics == {"a", "b"}
    assert [(owned.topic, owned.partitions) for owned in subscription.owned] == (
        [("a", [0, 2])] if version >= 1 else []
    )
    assert subscription.rack_id == ("rack" if version >= 3 else None)


def test_a_newer_version_begins_like_the_newest_that_is_known() -> None:
    assert read_subscription(metadata(3, written_as=9) + b"more") == read_subscription(metadata(3))


@pytest.mark.parametrize("bad", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\5", metadata(3)[:-3]])
def test_what_is_none_is_refused(bad: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_subscription(bad)


@pytest.mark.parametrize("version", range(4))
def test_topics_come_first_in_each_version(version: int) -> None:
    assert read_topics(metadata(version)) == {"a", "b"}
    assert read_topics(metadata(0, written_as=version)) == {"a", "b"}, "what its version has besides is missing"


@pytest.mark.parametrize("bad", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\5"])
def test_topics_of_nothing_that_could_be_read(bad: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_topics(bad)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_written_in_the_version_of_the_member(world: GroupWorld, version: int) -> None:
    partitions = partitions_from_names([TopicPartition("a", [0, 2])], world.cluster)
    written = write_assignment(partitions, metadata(version), world.cluster)
    assert written[:2] == version.to_bytes(2, "big")
    assert partitions_from_names(read_assignment(written).assigned_partitions, world.cluster) == partitions


def test_a_member_without_an_assignment_has_nothing(world: GroupWorld) -> None:
    assert read_assignment(b"").assigned_partitions == []


def test_only_what_is_there_is_named(world: GroupWorld) -> None:
    named = [TopicPartition("a", [-1, 2, 3]), TopicPartition("nothing", [0])]
    (partition,) = partitions_from_names(named, world.cluster)
    assert partition.partition == 2
    world.cluster.remove_topic(world.cluster.topics["a"].id)
    assert read_assignment(write_assignment(frozenset({partition}), b"\0\1", world.cluster)).assigned_partitions == []
