import pytest
from classic_groups import GROUP, Client, assign, describe, error_of, group_of, stable_group
from grouping import GroupWorld

from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group import GroupKind
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.group_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    return world


def test_a_member_joins_gets_its_assignment_is_there_and_leaves(world: GroupWorld) -> None:
    client = Client(world)
    first = client.ask_to_join()
    assert error_of(first) == ErrorCode.MEMBER_ID_REQUIRED
    client.member_id = first.reply.member_id
    assert client.member_id.startswith("a-client-")
    client.ask_to_join()
    reply = client.joined_reply
    assert (reply.generation_id, reply.protocol_type, reply.protocol_name) == (1, "consumer", "range")
    assert reply.leader == client.member_id and [member.member_id for member in reply.members] == [client.member_id]
    assert group_of(world).state == "CompletingRebalance" and not world.log
    assert client.heartbeat() == ErrorCode.NONE
    client.sync({client.member_id: b"all of them"})
    assert client.assignment == b"all of them"
    assert group_of(world).state == "Stable" and len(world.log) == 1
    described = describe(world)
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert described.members[0].member_assignment == b"all of them"
    assert client.leave() == ErrorCode.NONE
    assert group_of(world).state == "Empty" and group_of(world).generation == 2


def test_a_second_member_makes_the_first_join_again(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    second = Client(world)
    assert second.join().is_waiting
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    first.join()
    assert second.joined_reply.generation_id == 2
    assert not second.leads and second.joined_reply.members == []
    assert {member.member_id for member in first.joined_reply.members} == {first.member_id, second.member_id}
    assert second.sync().is_waiting
    assign([first, second])


def test_of_many_records_the_last_one_counts(world: GroupWorld) -> None:
    for _ in range(3):
        (client,) = stable_group(world, 1)
        client.leave()
    stable_group(world, 2)
    before = describe(world)
    assert len(world.log) > 3
    world.restart()
    assert describe(world) == before and group_of(world).generation == 8


def test_a_deleted_group_is_there_if_it_was_made_again(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    client.leave()
    world.ask(lambda coordinator, moment, asked: coordinator.delete(GROUP))
    world.restart()
    assert not world.coordinator.groups
    stable_group(world, 1)
    world.restart()
    assert (group_of(world).state, group_of(world).generation) == ("Stable", 1)


@pytest.mark.parametrize("says_that_it_is_gone", [True, False])
def test_a_group_of_the_other_kind_takes_its_place(world: GroupWorld, says_that_it_is_gone: bool) -> None:
    stable_group(world, 1)
    world.log.append(GroupRecord(ConsumerGroupMetadataKey(GROUP), ConsumerGroupMetadataValue(3)))
    if says_that_it_is_gone:
        world.log.append(GroupRecord(GroupMetadataKey(GROUP), None))
    world.restart()
    assert world.coordinator.groups[GROUP].kind is GroupKind.CONSUMER


def test_three_members(world: GroupWorld) -> None:
    clients = stable_group(world, 3)
    assert [client.leads for client in clients] == [True, False, False]
