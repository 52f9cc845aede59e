import pytest
from grouping import GroupWorld

from tailrace.broker.groups.classic.named_partitions import partitions_from_names, write_assignment
from tailrace.protocol.embedded_protocol import read_assignment
from tailrace.protocol.messages.consumer_protocol_subscription import TopicPartition


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.put_topic("a", 3)
    return world


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_written_in_the_version_of_the_member(world: GroupWorld, version: int) -> None:
    partitions = partitions_from_names([TopicPartition("a", [0, 2])], world.cluster)
    written = write_assignment(partitions, version.to_bytes(2), world.cluster)
    assert written[:2] == version.to_bytes(2, "big")
    assert partitions_from_names(read_assignment(written).assigned_partitions, world.cluster) == partitions


def test_only_what_is_there_is_named(world: GroupWorld) -> None:
    named = [TopicPartition("a", [-1, 2, 3]), TopicPartition("nothing", [0])]
    (partition,) = partitions_from_names(named, world.cluster)
    assert partition.partition == 2
    world.cluster.remove_topic(world.cluster.topics["a"].id)
    assert read_assignment(write_assignment(frozenset({partition}), b"\0\1", world.cluster)).assigned_partitions == []
