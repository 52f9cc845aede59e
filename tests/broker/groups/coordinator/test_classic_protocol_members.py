"""Tests of members of consumer groups that use the classic protocol."""

import pytest
from classic_groups import leave
from consumer_stories import GROUP, ClassicConsumer, Consumer, describe, group_in
from grouping import GroupWorld

from tailrace.broker.groups.common.group import Caller
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import MemberIdentity, MemberResponse


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.put_topic("a", 6)
    Consumer(world, "new").join()
    world.pass_time(1.0)
    return world


@pytest.fixture
def new(world: GroupWorld) -> Consumer:
    new = Consumer(world, "new")
    new.join()
    return new


@pytest.fixture
def old(world: GroupWorld, new: Consumer) -> ClassicConsumer:
    """Returns a member that shares the topic with `new`."""
    old = ClassicConsumer(world)
    for _ in range(4):
        old.go_on()
        new.beat()
    assert (old.numbers, new.numbers) == ([0, 1, 2], [3, 4, 5]) or (len(old.owned), len(new.owned)) == (3, 3)
    return old


def error_of(asked: object) -> ErrorCode | None:
    return getattr(getattr(asked, "error", None), "code", None)


def test_a_client_is_given_an_id_first(world: GroupWorld, new: Consumer) -> None:
    old = ClassicConsumer(world)
    reply = old.ask_join().reply
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id
    assert len(group_in(world).members) == 1


def test_there_is_no_group_leader_and_no_wait_for_others(world: GroupWorld, new: Consumer) -> None:
    old = ClassicConsumer(world, "chosen")
    reply = old.ask_join().reply
    assert (reply.error_code, reply.leader, reply.members) == (ErrorCode.NONE, "", [])
    assert (reply.protocol_type, reply.protocol_name, reply.generation_id) == ("consumer", "range", 3)
    old.generation = 3
    assert old._named(old.ask_sync().reply.assignment) == frozenset(), "new has it all yet"


def test_a_heartbeat_asks_to_join_when_there_are_more_partitions(world: GroupWorld, new: Consumer) -> None:
    old = ClassicConsumer(world)
    old.go_on()
    assert old.ask_beat().reply.error_code == ErrorCode.NONE
    new.beat(says_owned=False)
    assert old.ask_beat().reply.error_code == ErrorCode.NONE
    new.beat()
    assert old.ask_beat().reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    old.go_on()
    assert len(old.owned) == 3


def test_a_heartbeat_asks_to_join_when_there_are_partitions_to_revoke(
    world: GroupWorld, new: Consumer, old: ClassicConsumer
) -> None:
    world.pass_time(1.0)
    third = Consumer(world, "third")
    third.join()
    assert old.ask_beat().reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    old.waiting = old.ask_join()
    old.go_on()
    assert len(old.owned) == 2
    third.beat()
    assert not third.owned, "old was told, and has not said that it did"
    old.go_on()
    third.beat()
    assert len(third.owned) == 1, "new has not given up its third yet"
    assert old.ask_beat().reply.error_code == ErrorCode.NONE


def test_a_change_of_the_topics_reaches_it_with_its_own_heartbeats(world: GroupWorld, old: ClassicConsumer) -> None:
    world.put_topic("a", 8)
    world.pass_time(1.0)
    assert old.ask_beat().reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_what_does_not_fit_is_refused(world: GroupWorld, old: ClassicConsumer) -> None:
    unreadable = JoinGroupRequestProtocol("range", b"\0")
    mine = [JoinGroupRequestProtocol("mine", old.metadata())]
    bad = [unreadable], [JoinGroupRequestProtocol("cooperative-sticky", old.metadata()), unreadable], mine, []
    for protocols in bad:
        assert error_of(old.ask_join(protocols=protocols)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(old.ask_sync(protocol_name="mine")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(old.ask_sync(protocol_type="connect")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(old.ask_beat(old.generation - 1)) == ErrorCode.ILLEGAL_GENERATION
    for stranger in (ClassicConsumer(world, "stranger", generation=3), ClassicConsumer(world, "new", generation=3)):
        for asked in (stranger.ask_beat(), stranger.ask_sync()):
            assert error_of(asked) == ErrorCode.UNKNOWN_MEMBER_ID
    assert ClassicConsumer(world, "stranger").leave() == ErrorCode.UNKNOWN_MEMBER_ID
    instance = ClassicConsumer(world, old.member_id, instance_id="i", generation=3)
    assert error_of(instance.ask_beat()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_whose_name_fits_into_no_record_is_refused(world: GroupWorld, new: Consumer) -> None:
    caller = Caller("\N{REPLACEMENT CHARACTER}" * 11_000, "/192.0.2.1")
    assert error_of(ClassicConsumer(world, caller=caller).ask_join()) == ErrorCode.INVALID_REQUEST


def test_no_new_protocol_that_others_do_not_know(world: GroupWorld, old: ClassicConsumer) -> None:
    assert error_of(ClassicConsumer(world, "x", protocols=("sticky",)).ask_join()) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert ClassicConsumer(world, "x", protocols=("sticky", "range")).ask_join().reply.error_code == ErrorCode.NONE
    world.use(consumer_migration_policy="disabled")
    assert error_of(ClassicConsumer(world, "y").ask_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_sessions_are_as_long_as_the_member_wished(world: GroupWorld, new: Consumer, old: ClassicConsumer) -> None:
    for _ in range(3):
        world.pass_time(4.9)
        new.beat()
        old.ask_beat()
    world.pass_time(9.9)
    assert len(group_in(world).members) == 2
    world.pass_time(0.2)
    assert len(group_in(world).members) == 1


def test_a_member_that_has_to_join_again_must_do_so_in_time(
    world: GroupWorld, new: Consumer, old: ClassicConsumer
) -> None:
    world.pass_time(1.0)
    third = Consumer(world, "third")
    third.join()
    for _ in range(7):
        old.ask_beat()
        new.beat()
        third.beat()
        world.pass_time(8.0)
    assert old.member_id in group_in(world).members
    old.ask_beat()
    world.pass_time(8.0)
    assert old.member_id not in group_in(world).members


def test_a_sync_that_asks_to_join_does_not_extend_the_time(world: GroupWorld, new: Consumer) -> None:
    old = ClassicConsumer(world, "chosen", rebalance_timeout_ms=2_000)
    old.generation = old.ask_join().reply.generation_id
    assert old.ask_sync().error is None
    world.pass_time(3.0)
    Consumer(world, "third").join()
    assert error_of(old.ask_sync()) == ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_time(2.1)
    assert "chosen" not in group_in(world).members


def test_one_that_joined_has_to_ask_for_its_assignment(world: GroupWorld, new: Consumer) -> None:
    old = ClassicConsumer(world, "chosen")
    old.generation = old.ask_join().reply.generation_id
    for _ in range(8):
        world.pass_time(7.4)
        old.ask_beat()
        new.beat()
    assert "chosen" in group_in(world).members
    world.pass_time(1.0)
    assert "chosen" not in group_in(world).members


def test_a_static_member_changes_its_protocol_and_keeps_what_it_has(world: GroupWorld, new: Consumer) -> None:
    static = Consumer(world, "static", instance_id="i")
    static.join()
    world.pass_time(1.0)
    for _ in range(3):
        new.beat()
        static.beat()
    had = static.owned
    static.leave(-2)
    old = ClassicConsumer(world, instance_id="i")
    old.go_on()
    assert old.owned == had
    assert {member.instance_id: member.member_type for member in describe(world).members} == {None: 1, "i": 0}
    back = Consumer(world, "back", instance_id="i")
    back.join()
    assert back.owned == had
    assert error_of(old.ask_beat()) == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_was_the_last_of_the_new_protocol_makes_the_group_classic(world: GroupWorld) -> None:
    only = Consumer(world, "new")
    only.leave()
    static = Consumer(world, "static", instance_id="i")
    static.join()
    old = ClassicConsumer(world, instance_id="i")
    old.go_on()
    assert world.coordinator.groups["g"].kind == "classic"
    assert len(old.owned) == 6
    assert old.leads


@pytest.mark.parametrize("speaks_classic", [True, False])
def test_an_administrator_removes_static_members_by_name(
    world: GroupWorld, new: Consumer, speaks_classic: bool
) -> None:
    if speaks_classic:
        ClassicConsumer(world, instance_id="i").go_on()
    else:
        Consumer(world, "static", instance_id="i").join()
    assert len(group_in(world).members) == 2
    (answer,) = leave(world, MemberIdentity("", "i"), group_id=GROUP).members
    assert answer == MemberResponse("", "i", ErrorCode.NONE), "it is named as it was asked for"
    assert list(group_in(world).members) == ["new"]


def test_an_administrator_removes_members_of_the_new_protocol(world: GroupWorld, new: Consumer) -> None:
    other = Consumer(world, "other")
    other.join()
    assert leave(world, MemberIdentity("other"), group_id=GROUP).members == [
        MemberResponse("other", None, ErrorCode.NONE)
    ]
    assert other.error() == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(group_in(world).members) == ["new"]
