"""Tests of JoinGroup, rule by rule, with the responses of Apache Kafka."""

import pytest
from classic_groups import (
    GROUP,
    RANGE,
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

from tailrace.broker.groups.classic import classic_joining
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.leave_group import MemberIdentity


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    return world


def cause(world: GroupWorld) -> str:
    return group_of(world).rebalances[-1].cause


# new members


def test_old_clients_are_members_at_once(world: GroupWorld) -> None:
    client = Client(world, version=3)
    client.ask_to_join()
    assert client.leads and not group_of(world).pending


def test_a_static_member_needs_no_second_request(world: GroupWorld) -> None:
    client = Client(world, instance_id="worker-1")
    client.ask_to_join()
    assert client.joined_reply.member_id.startswith("worker-1-")


@pytest.mark.parametrize("milliseconds", [0, 5_999, 1_800_001, -1])
def test_a_session_must_be_neither_too_short_nor_too_long(world: GroupWorld, milliseconds: int) -> None:
    client = Client(world, session_seconds=milliseconds / 1000)
    assert error_of(client.ask_to_join()) == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_member_id_that_the_group_did_not_give_is_unknown(world: GroupWorld) -> None:
    client = Client(world, member_id="made up")
    assert error_of(client.ask_to_join()) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not world.coordinator.groups
    stable_group(world, 1)
    assert error_of(client.ask_to_join()) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", {})])
def test_a_member_needs_a_protocol_type_and_a_protocol(
    world: GroupWorld, protocol_type: str, protocols: dict[str, bytes]
) -> None:
    client = Client(world, protocol_type=protocol_type, protocols=protocols)
    assert error_of(client.ask_to_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not world.coordinator.groups, "nothing is kept for a client that was refused"


def test_a_member_must_know_a_protocol_that_all_know(world: GroupWorld) -> None:
    stable_group(world, 2, protocols={"range": b"", "sticky": b""})
    assert error_of(Client(world, protocols={"other": b""}).ask_to_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    connect = Client(world, protocol_type="connect")
    assert error_of(connect.ask_to_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(Client(world, protocols={"sticky": b""}).ask_to_join()) == ErrorCode.MEMBER_ID_REQUIRED


def test_a_group_that_is_empty_takes_any_protocol_type(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    client.leave()
    (other,) = stable_group(world, 1, protocol_type="connect", protocols={"default": b""})
    assert other.joined_reply.protocol_type == "connect"
    assert group_of(world).subscribed_topics() is None


def test_no_more_members_than_allowed(world: GroupWorld) -> None:
    world.use(members_max=2)
    stable_group(world, 2)
    assert error_of(Client(world).ask_to_join()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert error_of(Client(world, version=0).ask_to_join()) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_of_too_many_members_those_that_come_last_are_shed(world: GroupWorld) -> None:
    clients = stable_group(world, 3)
    world.use(members_max=2)
    world.restart()
    assert "group.max.size is 2" in cause(world)
    for client in clients[:2]:
        assert client.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        client.ask_to_join()
    assert error_of(clients[2].ask_to_join()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assign(clients[:2])


def test_ids_are_not_given_without_end(world: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_joining, "PENDING_MAX", 2)
    assert error_of(Client(world).ask_to_join()) == ErrorCode.MEMBER_ID_REQUIRED
    assert error_of(Client(world).ask_to_join()) == ErrorCode.MEMBER_ID_REQUIRED
    assert error_of(Client(world).ask_to_join()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.pass_time(SESSION_SECONDS)
    assert error_of(Client(world).ask_to_join()) == ErrorCode.MEMBER_ID_REQUIRED


def test_what_members_have_kept_for_them_is_bounded(world: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_joining, "MEMBERS_BYTES_MAX", 1000)
    large = {"range": bytes(600)}
    Client(world, version=0, protocols=large).ask_to_join()
    refused = Client(world, version=0, protocols=large).ask_to_join()
    assert error_of(refused) == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("field", ["instance_id", "protocol_type", "group_id"])
def test_names_must_fit_into_the_record(world: GroupWorld, field: str) -> None:
    client = Client(world, **{field: "x" * 32_001})  # type: ignore[arg-type] # a string in each of them
    assert error_of(client.ask_to_join()) == ErrorCode.INVALID_REQUEST
    assert error_of(Client(world, protocols={"x" * 32_001: b""}).ask_to_join()) == ErrorCode.INVALID_REQUEST


def test_a_member_needs_a_group_with_a_name(world: GroupWorld) -> None:
    assert error_of(Client(world, group_id="").ask_to_join()) == ErrorCode.INVALID_GROUP_ID


# clients with a new member id


def test_an_unused_member_id_is_forgotten(world: GroupWorld) -> None:
    client = Client(world)
    client.member_id = client.ask_to_join().reply.member_id
    world.pass_time(SESSION_SECONDS - 0.1)
    assert group_of(world).pending
    world.pass_time(0.1)
    assert not group_of(world).pending
    assert error_of(client.ask_to_join()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_clients_with_a_new_id(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    second, third = Client(world), Client(world)
    second.join()
    third.member_id = third.ask_to_join().reply.member_id
    assert first.ask_to_join().is_waiting
    world.pass_time(SESSION_SECONDS)
    assert not first.joined_reply.error_code, "the third sent no heartbeat again"
    assert second.joined_reply.generation_id == 2


def test_a_client_that_leaves_before_it_joined_is_not_waited_for(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    second, third = Client(world), Client(world)
    third.member_id = third.ask_to_join().reply.member_id
    assert group_of(world).state == "Stable"
    second.join()
    first.ask_to_join()
    assert third.leave() == ErrorCode.NONE
    assert first.joined_reply.generation_id == 2


def test_a_group_without_members_does_not_wait(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    second = Client(world)
    second.member_id = second.ask_to_join().reply.member_id
    first.leave()
    assert group_of(world).state == "Empty"
    second.ask_to_join()
    assert second.joined_reply.generation_id == 3


def test_a_client_that_leaves_before_it_joined_starts_no_rebalance(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    second = Client(world)
    second.member_id = second.ask_to_join().reply.member_id
    assert second.leave() == ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.NONE and group_of(world).state == "Stable"


# the first rebalance


def test_without_a_wait_the_first_member_is_answered_at_once(world: GroupWorld) -> None:
    first, second = Client(world), Client(world)
    for client in (first, second):
        client.member_id = client.ask_to_join().reply.member_id
    first.ask_to_join()
    assert first.joined_reply.generation_id == 1, "it does not wait for who was given an id"


def test_a_new_group_waits_for_more_members(world: GroupWorld) -> None:
    world.use(initial_rebalance_delay_ms=3000)
    first, second = Client(world), Client(world)
    first.join()
    world.pass_time(2)
    second.join()
    world.pass_time(1)
    assert first.joined is not None and first.joined.is_waiting, "one came while it waited, so it waits once more"
    world.pass_time(3)
    assert first.joined_reply.generation_id == 1 and len(first.joined_reply.members) == 2
    rebalance = group_of(world).rebalances[-1]
    assert [arrival.seconds for arrival in rebalance.arrivals.values()] == [0.0, 2.0]


def test_a_new_group_does_not_wait_beyond_the_rebalance_timeout(world: GroupWorld) -> None:
    world.use(initial_rebalance_delay_ms=3000)
    first = Client(world, rebalance_seconds=8)
    first.join()
    for _ in range(8):
        assert first.joined is not None and first.joined.is_waiting
        Client(world).join()
        world.pass_time(1)
    assert first.joined_reply.generation_id == 1


def test_a_new_group_waits_although_a_client_with_a_new_id_has_left(world: GroupWorld) -> None:
    world.use(initial_rebalance_delay_ms=15_000)
    first = Client(world)
    Client(world).ask_to_join()
    first.join()
    world.pass_time(SESSION_SECONDS)
    assert not group_of(world).pending
    assert first.joined is not None and first.joined.is_waiting
    world.pass_time(5)
    assert first.joined_reply.generation_id == 1


def test_a_group_that_was_empty_waits_again(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    first.leave()
    world.use(initial_rebalance_delay_ms=3000)
    second = Client(world)
    second.join()
    assert second.joined is not None and second.joined.is_waiting
    world.pass_time(3)
    assert second.joined_reply.generation_id == 3


def test_all_that_came_while_it_waited_leave(world: GroupWorld) -> None:
    world.use(initial_rebalance_delay_ms=3000)
    first = Client(world)
    first.join()
    leave(world, MemberIdentity(first.member_id))
    assert first.joined is not None and error_of(first.joined) == ErrorCode.UNKNOWN_MEMBER_ID
    world.pass_time(3)
    assert group_of(world).state == "Empty" and group_of(world).generation == 1


# members that join again


def test_a_follower_without_changes_gets_the_current_generation(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    follower.ask_to_join()
    assert follower.joined_reply.generation_id == leader.generation and follower.joined_reply.members == []
    assert group_of(world).state == "Stable"
    follower.sync()
    assert follower.assignment == follower.member_id.encode()


def test_a_leader_that_joins_again_makes_all_join_again(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    leader.ask_to_join("partitions were added")
    assert follower.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert cause(world) == f'the leader {leader.member_id} joined again, saying "partitions were added"'
    follower.ask_to_join()
    assert leader.joined_reply.generation_id == follower.joined_reply.generation_id == 3
    assign([leader, follower])


def test_a_member_that_subscribes_to_something_else_makes_all_join_again(world: GroupWorld) -> None:
    leader, follower = stable_group(world, 2)
    follower.protocols = {"range": subscription("orders", "payments")}
    assert follower.ask_to_join().is_waiting
    assert cause(world) == f"{follower.member_id} subscribes to other topics"
    leader.ask_to_join()
    assign([leader, follower])
    assert group_of(world).subscribed_topics() == {"orders", "payments"}


def test_a_member_with_other_metadata_makes_all_join_again(world: GroupWorld) -> None:
    _, follower = stable_group(world, 2)
    follower.protocols = {"range": RANGE["range"] + b"owns something"}
    follower.ask_to_join()
    assert cause(world) == f"{follower.member_id} joined again with other metadata"


def test_a_member_may_not_drop_the_protocol_that_all_support(world: GroupWorld) -> None:
    _, follower = stable_group(world, 2)
    follower.protocols = {"other": b""}
    assert error_of(follower.ask_to_join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group_of(world).state == "Stable"


def test_an_answer_to_a_join_that_was_lost_is_given_again(world: GroupWorld) -> None:
    client = Client(world)
    client.join()
    first = client.joined_reply
    client.ask_to_join()
    assert client.joined_reply == first and group_of(world).state == "CompletingRebalance"


def test_new_metadata_while_the_leader_assigns_starts_another_rebalance(world: GroupWorld) -> None:
    leader, follower = settle([Client(world, version=3), Client(world, version=3)])
    leader.ask_to_join()
    follower.ask_to_join()
    assert follower.joined_reply.generation_id == 3
    waiting = follower.sync()
    leader.protocols = {"range": subscription("payments")}
    leader.ask_to_join()
    assert error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    overtaken, current = list(group_of(world).rebalances)[-2:]
    assert overtaken.generation == 3 and overtaken.ended_ms is None
    assert list(current.expected) == [follower.member_id]


def test_a_second_join_takes_the_place_of_the_first(world: GroupWorld) -> None:
    stable_group(world, 1)
    second = Client(world)
    earlier = second.join()
    later = second.ask_to_join()
    assert error_of(earlier) == ErrorCode.REBALANCE_IN_PROGRESS and later.is_waiting


def test_an_empty_group_has_no_known_members(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    client.leave()
    assert error_of(client.ask_to_join()) == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(client.sync()) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("version", "rebalance_seconds"), [(0, 99.0), (3, -0.001)])
def test_without_a_rebalance_timeout_the_session_timeout_counts(
    world: GroupWorld, version: int, rebalance_seconds: float
) -> None:
    client = Client(world, version=version, rebalance_seconds=rebalance_seconds)
    client.ask_to_join()
    assert group_of(world).members.rebalance_timeout_ms == SESSION_SECONDS * 1000


# returning static members


def static_group(world: GroupWorld, **fields: object) -> list[Client]:
    """Returns the members. The first one is the group leader."""
    clients = [
        Client(world, instance_id="worker-1", **fields),  # type: ignore[arg-type] # fields of a Client
        Client(world, instance_id="worker-2", **fields),  # type: ignore[arg-type] # fields of a Client
    ]
    return settle(clients)


def come_back(client: Client, **fields: object) -> Client:
    """Returns the restarted instance, which has no member id."""
    again = Client(client.world, instance_id=client.instance_id, protocols=client.protocols, version=client.version)
    for name, value in fields.items():
        setattr(again, name, value)
    return again


def test_a_static_follower_comes_back_without_a_rebalance(world: GroupWorld) -> None:
    leader, follower = static_group(world)
    generation, records = leader.generation, len(world.log)
    again = come_back(follower)
    again.ask_to_join()
    reply = again.joined_reply
    assert (reply.generation_id, reply.leader, reply.members) == (generation, leader.member_id, [])
    assert reply.member_id != follower.member_id and not reply.skip_assignment
    assert len(world.log) == records + 1, "who takes its place is stored before it is told"
    again.sync()
    assert again.assignment == follower.member_id.encode(), "it has what it had"
    assert follower.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert error_of(follower.sync()) == ErrorCode.FENCED_INSTANCE_ID
    assert error_of(follower.ask_to_join()) == ErrorCode.FENCED_INSTANCE_ID
    assert follower.leave() == ErrorCode.FENCED_INSTANCE_ID
    assert leader.heartbeat() == again.heartbeat() == ErrorCode.NONE
    assert group_of(world).subscribed_topics() == {"orders"}
    world.restart()
    assert again.heartbeat() == ErrorCode.NONE and follower.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_may_come_back_with_other_topics(world: GroupWorld) -> None:
    _, follower = static_group(world)
    assert group_of(world).subscribed_topics() == {"orders"}
    again = come_back(follower, protocols={"range": subscription("payments")})
    again.ask_to_join()
    assert again.joined_reply.generation_id == 2
    assert group_of(world).subscribed_topics() == {"orders", "payments"}


def test_a_returning_static_leader_skips_the_assignment(world: GroupWorld) -> None:
    leader, follower = static_group(world)
    again = come_back(leader)
    again.ask_to_join()
    reply = again.joined_reply
    assert reply.skip_assignment and reply.leader == again.member_id
    assert {member.member_id for member in reply.members} == {again.member_id, follower.member_id}
    again.sync()
    assert again.assignment == leader.member_id.encode()


def test_a_static_leader_of_an_older_version_does_not_learn_that_it_leads(world: GroupWorld) -> None:
    leader, _ = static_group(world, version=8)
    again = come_back(leader)
    again.ask_to_join()
    reply = again.joined_reply
    assert (reply.leader, reply.members, reply.skip_assignment) == (leader.member_id, [], False)
    assert group_of(world).members.leader_id == again.member_id


def test_a_static_member_that_comes_back_with_another_vote_begins_a_rebalance(world: GroupWorld) -> None:
    both = {"range": RANGE["range"], "sticky": RANGE["range"]}
    leader, follower = static_group(world, protocols=both)
    again = come_back(follower, protocols={"sticky": RANGE["range"]})
    assert again.ask_to_join().is_waiting
    assert cause(world).startswith("worker-2 returned")
    leader.ask_to_join()
    assert again.joined_reply.protocol_name == "sticky"


def test_a_static_member_that_comes_back_while_the_leader_assigns_begins_a_rebalance(world: GroupWorld) -> None:
    leader, follower = static_group(world)
    leader.ask_to_join()
    follower.protocols = {"range": subscription("payments")}
    follower.ask_to_join()
    waiting = follower.sync()
    assert error_of(waiting) == ErrorCode.ILLEGAL_GENERATION, "it has not read its answer"
    assert follower.joined_reply.generation_id == 3
    waiting = follower.sync()
    again = come_back(follower)
    again.ask_to_join()
    assert error_of(waiting) == ErrorCode.FENCED_INSTANCE_ID
    assert cause(world) == "worker-2 returned while the leader made the assignment"
    leader.ask_to_join()
    assign([leader, again])


def test_a_static_member_that_comes_back_while_others_join_takes_its_place(world: GroupWorld) -> None:
    leader, follower = static_group(world)
    waiting = leader.ask_to_join()
    again = come_back(leader)
    again.ask_to_join()
    assert error_of(waiting) == ErrorCode.FENCED_INSTANCE_ID
    follower.ask_to_join()
    assign([again, follower])
    assert again.leads


def test_a_static_member_that_does_not_join_stays_and_is_removed_when_it_does_not_sync(world: GroupWorld) -> None:
    leader, follower = static_group(world, session_seconds=200.0)
    world.pass_time(1)
    waiting = leader.ask_to_join()
    world.pass_time(REBALANCE_SECONDS - 0.1)
    assert waiting.is_waiting
    world.pass_time(0.1)
    assert len(leader.joined_reply.members) == 2, "its session has not ended, so it may be starting"
    leader.sync({leader.member_id: b"mine", follower.member_id: b"its"})
    assert group_of(world).state == "Stable"
    world.pass_time(REBALANCE_SECONDS)
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert cause(world) == "worker-2 did not ask for an assignment in time"
    assert [member.group_instance_id for member in describe(world, GROUP).members] == ["worker-1"]


def test_static_members_alone_that_do_not_come_are_waited_for_until_their_sessions_end(world: GroupWorld) -> None:
    leader, follower = static_group(world, session_seconds=100.0, rebalance_seconds=30.0)
    leave(world, MemberIdentity("", "worker-1"))
    world.pass_time(60)
    assert group_of(world).state == "PreparingRebalance" and group_of(world).generation == 2
    world.pass_time(40)
    assert group_of(world).state == "Empty" and group_of(world).generation == 3
    assert follower.heartbeat() == leader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
