"""Tests of classic groups: assignments, sessions, leaving members, commits, and a change of the coordinator."""

import math

import pytest
from classic_groups import (
    GROUP,
    REBALANCE_SECONDS,
    SESSION_SECONDS,
    Client,
    assign,
    describe,
    error_of,
    group_of,
    leave,
    settle,
    stable_group,
    subscription,
)
from grouping import GroupWorld

from tailrace.broker.groups.classic import classic_group
from tailrace.broker.groups.classic.classic_group import NEW_MEMBER_SECONDS_MAX
from tailrace.broker.groups.common.rebalances import Rebalance
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from tailrace.protocol.messages.leave_group import MemberIdentity


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    return world


def last_rebalance(world: GroupWorld) -> Rebalance:
    return group_of(world).rebalances[-1]


def keep_alive(world: GroupWorld, clients: list[Client], seconds: float) -> None:
    """Lets time pass in which these clients send heartbeats."""
    while seconds > 0:
        step = min(seconds, SESSION_SECONDS / 3)
        world.pass_time(step)
        seconds -= step
        for client in clients:
            client.heartbeat()


# assignments


def test_members_wait_for_the_leaders_assignment(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    waiting = follower.sync()
    keep_alive(world, [leader], SESSION_SECONDS * 2)
    assert waiting.is_waiting, "who waits need not send heartbeats"
    world.pass_time(SESSION_SECONDS)
    assert error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS, "of the leader nothing was heard"
    assert last_rebalance(world).cause == f"{leader.member_id} sent no heartbeat for 10 s, its session timeout"


def test_a_member_that_waited_for_its_assignment_starts_a_full_session(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    follower.sync()
    keep_alive(world, [leader], SESSION_SECONDS * 2)
    leader.sync({leader.member_id: b"1", follower.member_id: b"2"})
    keep_alive(world, [leader], SESSION_SECONDS - 0.1)
    assert group_of(world).state == "Stable"
    keep_alive(world, [leader], 0.2)
    assert last_rebalance(world).cause.startswith(f"{follower.member_id} sent no heartbeat")


def test_only_the_leader_assigns(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    assert follower.sync({follower.member_id: b"all for me"}).is_waiting
    leader.sync({leader.member_id: b"all"})
    assert follower.assignment == b""


def test_no_assignment_is_answered_before_it_is_in_the_log(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    coordinator = world.coordinator
    assert not coordinator.output
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    follower.sync()
    world._carry_out = lambda: None  # type: ignore[method-assign] # the output stays where the test can check it
    leader.sync({leader.member_id: b"1", follower.member_id: b"2"})
    assert len(coordinator.output.records) == 1 and not coordinator.output.responses_at_once
    assert [each.response.assignment for each in coordinator.output.responses] == [b"1", b"2"]


def test_a_member_that_the_leader_forgot_has_an_empty_assignment(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    leader.sync({leader.member_id: b"all", "stranger": b"something"})
    follower.sync()
    assert (leader.assignment, follower.assignment) == (b"all", b"")


def test_a_repeated_sync_gets_the_assignment_again(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.sync({leader.member_id: b"something else"})
    follower.sync()
    assert leader.assignment == leader.member_id.encode() and follower.assignment == follower.member_id.encode()


def test_a_second_sync_takes_the_place_of_the_first(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    first, second = follower.sync(), follower.sync()
    assert error_of(first) == ErrorCode.REBALANCE_IN_PROGRESS and second.is_waiting
    leader.sync({follower.member_id: b"f"})
    assert follower.assignment == b"f"


def test_a_member_that_waits_for_the_leader_stays_when_both_sessions_end(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    waiting = follower.sync()
    world.pass_time(SESSION_SECONDS)
    assert error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert [member.member_id for member in group_of(world).members] == [follower.member_id]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"sticky": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_an_unknown_member_gets_no_assignment(world: GroupWorld, fields: dict[str, object], error: ErrorCode) -> None:
    _, client = stable_group(world, 2)
    for name, value in fields.items():
        setattr(client, name, value)
    assert error_of(client.sync()) == error


def test_a_sync_while_others_join_is_told_to_join(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    assert error_of(follower.sync()) == ErrorCode.REBALANCE_IN_PROGRESS


def test_assignments_that_are_too_large_are_refused(world: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = stable_group(world, 2)
    monkeypatch.setattr(classic_group, "ASSIGNED_BYTES_MAX", 1000)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    waiting, records = follower.sync(), len(world.log)
    refused = leader.sync({leader.member_id: bytes(1001)})
    assert error_of(refused) == error_of(waiting) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group_of(world).state == "PreparingRebalance" and len(world.log) == records


def test_a_member_that_does_not_sync_is_removed(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    leader.sync({leader.member_id: b"l", follower.member_id: b"f"})
    keep_alive(world, [leader, follower], REBALANCE_SECONDS)
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert last_rebalance(world).cause == f"{follower.member_id} did not ask for an assignment in time"
    leader.ask_to_join()
    assign([leader])


# sessions


def test_a_silent_member_is_removed(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    keep_alive(world, [leader], SESSION_SECONDS + 0.1)
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert last_rebalance(world).cause == f"{follower.member_id} sent no heartbeat for 10 s, its session timeout"
    leader.ask_to_join()
    assign([leader])


def test_all_members_vanish(world: GroupWorld) -> None:
    stable_group(world, 3)
    world.pass_time(SESSION_SECONDS)
    group = group_of(world)
    assert (group.state, group.generation, group.deadline) == ("Empty", 3, math.inf)
    assert group.empty_since_ms == world.now_ms
    assert world.log[-1].value.members == [] and world.log[-1].value.generation == 3


def test_a_commit_keeps_a_member_alive(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    for _ in range(4):
        world.pass_time(SESSION_SECONDS / 2)
        group_of(world).on_commit(client.member_id, world.moment)
    assert client.heartbeat() == ErrorCode.NONE


def test_heartbeats_go_on_while_the_leader_assigns(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    assert leader.heartbeat() == follower.heartbeat() == ErrorCode.NONE


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_whose_heartbeat_counts_for_nothing(world: GroupWorld, fields: dict[str, object], error: ErrorCode) -> None:
    _, client = stable_group(world, 2)
    for name, value in fields.items():
        setattr(client, name, value)
    assert client.heartbeat() == error


def test_a_member_that_does_not_rejoin_in_time_is_removed(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    third = Client(world)
    third.join()
    world.pass_time(2)
    leader.ask_to_join()
    keep_alive(world, [follower], REBALANCE_SECONDS - 2.01)
    assert third.joined is not None and third.joined.is_waiting
    world.pass_time(0.01)
    assert leader.joined_reply.generation_id == third.joined_reply.generation_id == 3
    rebalance = last_rebalance(world)
    assert [(gone.participant.member_id, gone.why) for gone in rebalance.departed] == [
        (follower.member_id, "did not join within 60.0 s")
    ]
    assert error_of(follower.ask_to_join()) == ErrorCode.UNKNOWN_MEMBER_ID
    assign([leader, third])


def test_another_leads_when_the_leader_does_not_join_in_time(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    Client(world, instance_id="worker-1").join()
    follower.ask_to_join()
    world.pass_time(SESSION_SECONDS)
    assert follower.leads
    assert leader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_has_had_no_answer_is_not_waited_for_without_end(world: GroupWorld) -> None:
    (leader,) = stable_group(world, 1, session_seconds=1000.0, rebalance_seconds=1000.0)
    second = Client(world, version=3)
    waiting = second.ask_to_join()
    world.pass_time(NEW_MEMBER_SECONDS_MAX)
    assert error_of(waiting) == ErrorCode.UNKNOWN_MEMBER_ID
    leader.ask_to_join()
    assign([leader])


def test_what_is_awaited_is_never_announced_too_late(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    group = group_of(world)
    assert group.deadline <= world.now + SESSION_SECONDS
    keep_alive(world, [leader, follower], 100.0)
    assert group.deadline <= world.now + SESSION_SECONDS
    assert world.coordinator.deadline <= group.deadline


# leaving


def test_a_rebalance_does_not_wait_for_a_member_that_leaves(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    assert follower.leave("the consumer is being closed") == ErrorCode.NONE
    assert last_rebalance(world).cause == f'{follower.member_id} left, saying "the consumer is being closed"'
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    leader.ask_to_join()
    assign([leader])


def test_the_leader_leaves(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.leave()
    follower.ask_to_join()
    assert follower.leads


def test_a_member_that_joins_again_leaves_by_another_connection(world: GroupWorld) -> None:
    stable_group(world, 2)
    third = Client(world)
    waiting = third.join()
    assert third.leave() == ErrorCode.NONE
    assert error_of(waiting) == ErrorCode.UNKNOWN_MEMBER_ID
    assert [gone.why for gone in last_rebalance(world).departed] == ["left"]


def test_a_member_that_waits_for_its_assignment_leaves_by_another_connection(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    waiting = follower.sync()
    follower.leave()
    assert error_of(waiting) == ErrorCode.UNKNOWN_MEMBER_ID


def test_several_leave_with_one_request_and_each_has_its_own_answer(world: GroupWorld) -> None:
    one, two, three = stable_group(world, 3)
    reply = leave(
        world,
        MemberIdentity(one.member_id),
        MemberIdentity("stranger"),
        MemberIdentity("", "no such instance"),
        MemberIdentity(""),
        MemberIdentity(two.member_id, "no such instance"),
        MemberIdentity(three.member_id, None, "done"),
        MemberIdentity(three.member_id),
    )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.error_code for member in reply.members] == [0, unknown, unknown, unknown, unknown, 0, unknown]
    assert last_rebalance(world).cause == f"{one.member_id} left, and 1 other with it"
    assert [member.member_id for member in describe(world).members] == [two.member_id]


def test_static_members_that_want_no_rebalance_to_take_time_are_waited_for_all_the_same(world: GroupWorld) -> None:
    for number in (1, 2):
        stable_group(world, 1, instance_id=f"worker-{number}", group_id=f"{GROUP}-{number}")
    first, second = (world.log[place].value.members[0] for place in (0, 1))  # type: ignore[union-attr]
    first.rebalance_timeout = second.rebalance_timeout = 0
    world.log[0].value.members.append(second)  # type: ignore[union-attr]
    second.session_timeout = 30_000
    world.restart()
    group = group_of(world, f"{GROUP}-1")
    world.pass_time(SESSION_SECONDS + 5)
    assert group.state == "PreparingRebalance"
    assert world.now < group.deadline <= world.now + 1
    world.pass_time(30)
    assert group.state == "Empty"


def test_a_static_member_that_vanished_while_it_waited_for_its_assignment_does_not_stay_for_good(
    world: GroupWorld,
) -> None:
    """Its session ended before that of the leader, and neither has sent a heartbeat since."""
    members = [Client(world, instance_id=name, session_seconds=seconds) for name, seconds in (("b", 20), ("a", 10))]
    leader, follower = settle(members)
    leader.join()
    follower.join()
    assert leader.joined_reply.generation_id == follower.joined_reply.generation_id
    waiting = follower.sync()
    world.pass_time(25)
    assert error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_time(10)
    assert group_of(world).is_empty


def test_an_administrator_removes_a_static_member_by_its_name(world: GroupWorld) -> None:
    stable_group(world, 1, instance_id="worker-1")
    reply = leave(world, MemberIdentity("", "worker-1", "scaled down"))
    assert (reply.members[0].member_id, reply.members[0].error_code) == ("", ErrorCode.NONE)
    assert group_of(world).state == "Empty"


def test_leaving_a_group_that_does_not_exist_is_refused(world: GroupWorld) -> None:
    reply = leave(world, MemberIdentity("stranger"), MemberIdentity("other"))
    assert [member.error_code for member in reply.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert not world.coordinator.groups


# commits


def commit_error(world: GroupWorld, member_id: str, generation: int, **fields: object) -> ErrorCode:
    try:
        group_of(world).check_commit(
            member_id,
            fields.get("instance_id"),  # type: ignore[arg-type] # a string or None
            generation,
            9,
            transactional=bool(fields.get("transactional")),
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_members_alone_commit_while_there_are_any(world: GroupWorld) -> None:
    leader, _ = stable_group(world, 2)
    assert commit_error(world, leader.member_id, 2) == ErrorCode.NONE
    assert commit_error(world, leader.member_id, 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit_error(world, leader.member_id, -1) == ErrorCode.ILLEGAL_GENERATION
    assert commit_error(world, "stranger", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_error(world, leader.member_id, 2, instance_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_error(world, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_error(world, "", -1, transactional=True) == ErrorCode.NONE, "older transactions name no member"


def test_a_commit_without_a_generation_is_allowed_while_the_group_is_empty(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    client.leave()
    assert commit_error(world, "", -1) == ErrorCode.NONE
    assert commit_error(world, client.member_id, -1) == ErrorCode.NONE
    assert commit_error(world, client.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_commit_before_they_join_again_and_not_before_they_are_assigned(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join()
    assert commit_error(world, follower.member_id, 2) == ErrorCode.NONE
    follower.ask_to_join()
    assert commit_error(world, follower.member_id, 2) == ErrorCode.ILLEGAL_GENERATION
    assert commit_error(world, follower.member_id, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_error(world, follower.member_id, 3, transactional=True) == ErrorCode.NONE


def test_a_replaced_static_member_cannot_commit(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1, instance_id="worker-1")
    again = Client(world, instance_id="worker-1")
    again.ask_to_join()
    assert commit_error(world, client.member_id, 1, instance_id="worker-1") == ErrorCode.FENCED_INSTANCE_ID
    assert commit_error(world, again.joined_reply.member_id, 1, instance_id="worker-1") == ErrorCode.NONE


# descriptions


def test_a_group_is_described_in_each_state(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    stable = describe(world)
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
    assert all(member.member_metadata and member.member_assignment for member in stable.members)
    leader.ask_to_join()
    preparing = describe(world)
    assert (preparing.group_state, preparing.protocol_data) == ("PreparingRebalance", "")
    assert not any(member.member_metadata for member in preparing.members)
    follower.ask_to_join()
    assert describe(world).group_state == "CompletingRebalance"
    assert leader.joined_reply and follower.joined_reply
    leader.leave()
    follower.leave()
    empty = describe(world)
    assert (empty.group_state, empty.protocol_type, empty.members) == ("Empty", "consumer", [])


def test_a_group_in_use_is_not_deleted(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    asked = world.ask(lambda coordinator, moment, asked: coordinator.delete(GROUP))
    assert error_of(asked) == ErrorCode.NON_EMPTY_GROUP
    client.leave()
    world.ask(lambda coordinator, moment, asked: coordinator.delete(GROUP))
    assert (world.log[-1].key, world.log[-1].value) == (GroupMetadataKey(GROUP), None)
    assert describe(world).group_state == "Dead" and describe(world).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.restart()
    assert GROUP not in world.coordinator.groups


def test_topics_are_those_of_all_members_if_they_can_be_read(world: GroupWorld) -> None:
    first = Client(world, protocols={"range": subscription("a", "b")}, version=3)
    first.ask_to_join()
    second = Client(world, protocols={"range": subscription("b", "c")}, version=3)
    second.ask_to_join()
    first.joined_reply  # noqa: B018 # this makes it learn its id
    first.ask_to_join()
    assert group_of(world).subscribed_topics() == {"a", "b", "c"}
    first.protocols = {"range": b"\x00"}
    first.ask_to_join()
    second.ask_to_join()
    assert group_of(world).subscribed_topics() is None


def test_a_rebalance_records_arrivals_and_late_members(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    began_ms = world.now_ms
    third = Client(world, instance_id="worker-3")
    third.ask_to_join("started")
    world.pass_time(1)
    leader.ask_to_join()
    world.pass_time(2.5)
    follower.ask_to_join()
    joined_ms = world.now_ms
    world.pass_time(0.5)
    assign([leader, follower, third])
    rebalance = last_rebalance(world)
    assert rebalance.cause == 'worker-3 joined, saying "started"'
    assert [(arrival.participant.name, arrival.seconds) for arrival in rebalance.arrivals.values()] == [
        ("worker-3", 0.0),
        (leader.member_id, 1.0),
        (follower.member_id, 3.5),
    ]
    assert rebalance.late_seconds == 2.5 and not rebalance.expected and not rebalance.departed
    assert (rebalance.generation, rebalance.began_ms, rebalance.joined_ms, rebalance.ended_ms) == (
        3,
        began_ms,
        joined_ms,
        joined_ms + 500,
    )


# a new coordinator


def test_another_coordinator_finds_the_group_as_it_was_stored(world: GroupWorld) -> None:
    clients = stable_group(world, 2)
    before = describe(world)
    world.pass_time(SESSION_SECONDS - 1)
    world.restart()
    assert describe(world) == before
    assert group_of(world).subscribed_topics() == {"orders"}
    world.pass_time(SESSION_SECONDS - 1)
    assert all(client.heartbeat() == ErrorCode.NONE for client in clients), "their sessions began anew"
    world.pass_time(SESSION_SECONDS)
    assert group_of(world).state == "Empty" and group_of(world).generation == 3


def test_parked_requests_are_refused_when_the_coordinator_ends(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    joining = leader.ask_to_join()
    world.restart()
    assert error_of(joining) == ErrorCode.NOT_COORDINATOR
    assert group_of(world).state == "Stable" and follower.heartbeat() == ErrorCode.NONE
    joining = leader.ask_to_join()
    follower.ask_to_join()
    assert leader.joined_reply and follower.joined_reply
    syncing = follower.sync()
    world.restart()
    assert error_of(syncing) == ErrorCode.NOT_COORDINATOR
    assert error_of(follower.sync()) == ErrorCode.ILLEGAL_GENERATION, "that generation was never stored"


def test_an_empty_group_stays_empty(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    client.leave()
    since_ms = world.now_ms
    world.pass_time(100)
    world.restart()
    assert group_of(world).is_empty and group_of(world).empty_since_ms == since_ms


def test_a_group_whose_record_does_not_say_since_when(world: GroupWorld) -> None:
    group = classic_group.ClassicGroup.stored(
        GROUP, GroupMetadataValue("consumer", 3), world.coordinator.output, lambda: world.settings
    )
    assert group.is_empty and group.empty_since_ms is None
