"""Classic groups request by request: all responses in every version, when everything goes well and when it does not."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest
from raw import connect
from raw_groups import (
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    NONE,
    ORDERS,
    PAYMENTS,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Joined,
    Member,
    Synced,
    await_rebalance,
)

ALL_GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
OPERATIONS_NOT_ASKED_FOR = -(2**31)
SESSION_MS_MIN = 6_000
RANGE_ALONE = [("range", ORDERS)]


class NewMember(Protocol):
    def __call__(self, **fields: Any) -> Member: ...


@pytest.fixture
def member(bootstrap: str, group: str) -> Iterator[NewMember]:
    with ExitStack() as stack:
        yield lambda **fields: Member(stack.enter_context(connect(bootstrap)), **{"group": group, **fields})


def no_protocol(version: int) -> str | None:
    """Returns the protocol as a refusal of JoinGroup has it."""
    return None if version >= 7 else ""


def together(*members: Member) -> list[Member]:
    """Makes all members join with their own ids, and returns them with the leader first; the group may already
    exist."""
    first, *others = members
    assert first.join().error == NONE
    for other in others:
        if other.instance is None and not other.member_id:
            other.obtain_member_id()
    for other in others:
        other.ask_to_join()
    if others:
        await_rebalance(first)
        first.ask_to_join()
    joined = [each.joined() for each in members] if others else []
    assert {answer.error for answer in joined} <= {NONE} and len({answer.generation for answer in joined}) <= 1
    return assign(*members)


def assign(*members: Member) -> list[Member]:
    """Makes the leader assign partitions, so that all members are in the same generation."""
    leader_id = max(members[0].describe().members, key=lambda each: each.member_id).member_id
    leader_id = _leader_of(members[0]) or leader_id
    leader = next(each for each in members if each.member_id == leader_id)
    for each in members:
        if each is not leader:
            each.ask_to_sync()
    leader.ask_to_sync({each.member_id: each.member_id.encode() for each in members})
    for each in members:
        assert each.synced() == Synced(NONE, "consumer", "range", each.member_id.encode())
    return [leader, *(each for each in members if each is not leader)]


def _leader_of(member: Member) -> str:
    """Returns the leader, which a member learns when it joins again without changes while the group waits for the
    leader."""
    member.ask_to_join()
    return member.joined().leader


# a single member


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_each_version(member: NewMember, group: str, version: int) -> None:
    one = member()
    one.ask_to_join(version)
    joined = one.joined()
    if version >= 4:
        assert joined == Joined(
            MEMBER_ID_REQUIRED, -1, None, no_protocol(version), "", False if version >= 9 else None, one.member_id, []
        )
        assert one.member_id.startswith("raw-member-") and len(one.member_id) == len("raw-member-") + 36
        one.ask_to_join(version)
        joined = one.joined()
    assert joined == Joined(
        NONE,
        1,
        "consumer" if version >= 7 else None,
        "range",
        one.member_id,
        False if version >= 9 else None,
        one.member_id,
        [(one.member_id, None, ORDERS)],
    )


@pytest.mark.parametrize("version", range(6))
def test_a_leader_syncs_in_each_version(member: NewMember, version: int) -> None:
    one = member()
    one.join()
    synced = one.sync({one.member_id: b"everything"}, version)
    names = ("consumer", "range") if version >= 5 else (None, None)
    assert synced == Synced(NONE, *names, b"everything")


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_in_each_version(member: NewMember, version: int) -> None:
    (one,) = together(member())
    assert one.heartbeat(version) == NONE
    assert one.heartbeat(version, generation=7) == ILLEGAL_GENERATION
    one.member_id = "stranger"
    assert one.heartbeat(version) == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_each_version(member: NewMember, version: int) -> None:
    (one,) = together(member())
    assert one.leave(version) == NONE
    described = one.describe()
    assert (described.error, described.state, described.protocol_type, described.members) == (
        NONE,
        "Empty",
        "consumer",
        [],
    )
    assert one.leave(version) == UNKNOWN_MEMBER_ID


def test_generations_continue_where_they_were(member: NewMember) -> None:
    (one,) = together(member())
    one.leave()
    (two,) = together(member())
    assert two.generation == 3, "the second generation had no members"


def test_metadata_and_assignments_are_any_bytes(member: NewMember) -> None:
    metadata, assignment = bytes(range(256)) * 40, bytes(reversed(range(256))) * 40
    one = member(protocols=[("own", metadata)], protocol_type="my own type")
    assert one.join().members == [(one.member_id, None, metadata)]
    assert one.sync({one.member_id: assignment}).assignment == assignment
    (described,) = one.describe().members
    assert (described.metadata, described.assignment) == (metadata, assignment)


# members that may not join


@pytest.mark.parametrize("session_ms", [0, SESSION_MS_MIN - 1, 1_800_001])
def test_a_session_of_an_impossible_length(member: NewMember, session_ms: int) -> None:
    one = member(session_ms=session_ms)
    one.ask_to_join()
    assert one.joined().error == INVALID_SESSION_TIMEOUT


def test_a_group_without_a_name(member: NewMember) -> None:
    one = member(group="")
    one.ask_to_join()
    assert one.joined().error == INVALID_GROUP_ID
    one.ask_to_sync()
    assert one.synced().error == INVALID_GROUP_ID
    assert one.heartbeat() == INVALID_GROUP_ID
    assert one.leave_with([("m", None)]) == (INVALID_GROUP_ID, [])


@pytest.mark.parametrize("version", [2, 6, 7, 9])
def test_an_unknown_member_id_is_refused(member: NewMember, version: int) -> None:
    one = member(member_id="made-up")
    one.ask_to_join(version)
    skip = False if version >= 9 else None
    assert one.joined() == Joined(UNKNOWN_MEMBER_ID, -1, None, no_protocol(version), "", skip, "made-up", [])
    together(member())
    one.ask_to_join(version)
    refused = one.joined()
    assert refused == Joined(UNKNOWN_MEMBER_ID, -1, None, no_protocol(version), "", skip, "made-up", [])


def test_incompatible_protocols_are_refused(member: NewMember) -> None:
    nothing, no_type = member(protocols=[]), member(protocol_type="")
    for each in (nothing, no_type):
        each.ask_to_join()
        assert each.joined().error == INCONSISTENT_GROUP_PROTOCOL
    together(member())
    other, connect_worker = member(protocols=[("other", ORDERS)]), member(protocol_type="connect")
    for each in (nothing, no_type, other, connect_worker):
        each.ask_to_join()
        assert each.joined().error == INCONSISTENT_GROUP_PROTOCOL


def test_a_member_may_not_remove_the_last_common_protocol(member: NewMember) -> None:
    (one,) = together(member(protocols=RANGE_ALONE))
    one.protocols = [("other", ORDERS)]
    one.ask_to_join()
    assert one.joined().error == INCONSISTENT_GROUP_PROTOCOL
    assert one.heartbeat() == NONE


def test_the_protocol_that_most_members_prefer_is_used(member: NewMember) -> None:
    both = [("range", ORDERS), ("sticky", ORDERS)]
    swapped = [("sticky", ORDERS), ("range", ORDERS)]
    one, two, three = member(protocols=both), member(protocols=swapped), member(protocols=[("x", ORDERS), *swapped])
    one.join()
    for each in (two, three):
        each.obtain_member_id()
        each.ask_to_join()
    await_rebalance(one)
    one.ask_to_join()
    assert [each.joined().protocol for each in (one, two, three)] == ["sticky"] * 3


# several members


def test_all_join_again_for_a_new_member(member: NewMember) -> None:
    (one,) = together(member())
    two = member()
    two.obtain_member_id()
    two.ask_to_join(reason="I am new")
    assert two.is_waiting()
    assert one.heartbeat() == REBALANCE_IN_PROGRESS
    described = one.describe()
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert {each.member_id for each in described.members} == {one.member_id, two.member_id}
    one.ask_to_join()
    answers = [one.joined(), two.joined()]
    assert [answer.generation for answer in answers] == [2, 2]
    leader, follower = sorted(answers, key=lambda answer: not answer.leads)
    assert {each.member_id for each in leader.members} == {one.member_id, two.member_id}
    assert follower.members == [] and follower.leader == leader.member_id
    described = one.describe()
    assert (described.state, described.protocol_type, described.protocol) == ("CompletingRebalance", "consumer", "")
    assert all(each.metadata == b"" for each in described.members)
    assign(one, two)
    described = one.describe()
    assert (described.error, described.message, described.state, described.protocol) == (NONE, None, "Stable", "range")
    assert {(each.member_id, each.metadata, each.assignment) for each in described.members} == {
        (each.member_id, ORDERS, each.member_id.encode()) for each in (one, two)
    }
    assert {(each.client_id, each.host) for each in described.members} == {("raw-member", "/127.0.0.1")}


def test_members_wait_for_the_leaders_assignment(member: NewMember) -> None:
    leader, follower = together(member(), member())
    leader.ask_to_join()
    await_rebalance(follower)
    follower.ask_to_join()
    assert leader.joined().leads and not follower.joined().leads
    follower.ask_to_sync()
    assert follower.is_waiting()
    assert leader.sync({leader.member_id: b"all of it"}).assignment == b"all of it"
    assert follower.synced() == Synced(NONE, "consumer", "range", b""), "the leader has assigned nothing to it"


def test_an_assignment_can_be_asked_for_again(member: NewMember) -> None:
    leader, follower = together(member(), member())
    assert follower.sync().assignment == follower.member_id.encode()
    assert leader.sync({leader.member_id: b"too late"}).assignment == leader.member_id.encode()


def test_a_sync_that_does_not_match_the_group_is_refused(member: NewMember) -> None:
    one, two = together(member(), member())
    refused = [
        one.sync(generation=one.generation + 1),
        one.sync(generation=one.generation - 1),
        one.sync(protocol="sticky"),
        one.sync(protocol_type="connect"),
        one.sync(protocol=None),
        one.sync(protocol_type=None),
    ]
    assert [answer.error for answer in refused] == [
        ILLEGAL_GENERATION,
        ILLEGAL_GENERATION,
        INCONSISTENT_GROUP_PROTOCOL,
        INCONSISTENT_GROUP_PROTOCOL,
        INCONSISTENT_GROUP_PROTOCOL,
        INCONSISTENT_GROUP_PROTOCOL,
    ]
    assert refused[0] == Synced(ILLEGAL_GENERATION, None, None, b"")
    one.ask_to_join()
    await_rebalance(two)
    assert two.sync().error == REBALANCE_IN_PROGRESS
    stranger = member(member_id="stranger", generation=2)
    assert stranger.sync().error == UNKNOWN_MEMBER_ID
    assert member(group="no such group", member_id="m", generation=1).sync().error == UNKNOWN_MEMBER_ID


def test_a_member_that_rejoins_without_changes_gets_the_current_state(member: NewMember) -> None:
    leader, follower = together(member(), member())
    answer = follower.join()
    assert answer == Joined(
        NONE, leader.generation, "consumer", "range", leader.member_id, False, follower.member_id, []
    )
    assert leader.heartbeat() == NONE


def test_a_leader_that_rejoins_starts_a_rebalance(member: NewMember) -> None:
    leader, follower = together(member(), member())
    leader.ask_to_join()
    assert leader.is_waiting() and follower.heartbeat() == REBALANCE_IN_PROGRESS
    follower.ask_to_join()
    assert follower.joined().generation == leader.joined().generation == 3
    assign(leader, follower)


def test_new_metadata_starts_a_rebalance(member: NewMember) -> None:
    leader, follower = together(member(), member())
    follower.protocols = [("range", PAYMENTS)]
    follower.ask_to_join()
    assert follower.is_waiting() and leader.heartbeat() == REBALANCE_IN_PROGRESS
    leader.ask_to_join()
    assert PAYMENTS in [each.metadata for each in leader.joined().members]
    assert follower.joined().generation == 3


def test_new_metadata_while_the_leader_assigns_starts_another_rebalance(member: NewMember) -> None:
    leader, follower = together(member(), member())
    leader.ask_to_join()
    assert leader.is_waiting()
    follower.ask_to_join()
    assert leader.joined().generation == follower.joined().generation == 3
    follower.ask_to_sync()
    assert follower.is_waiting()
    leader.protocols = [("range", PAYMENTS)]
    leader.ask_to_join()
    assert follower.synced() == Synced(REBALANCE_IN_PROGRESS, None, None, b"")
    follower.ask_to_join()
    assert leader.joined().generation == follower.joined().generation == 4
    assign(leader, follower)


def test_a_rebalance_does_not_wait_for_a_member_that_leaves(member: NewMember) -> None:
    leader, follower = together(member(), member())
    assert follower.leave(reason="closing") == NONE
    assert leader.heartbeat() == REBALANCE_IN_PROGRESS
    assert leader.join().members == [(leader.member_id, None, ORDERS)]


def test_several_leave_at_once(member: NewMember) -> None:
    one, two = together(member(), member())
    admin = member()
    error, members = admin.leave_with(
        [(one.member_id, None), ("stranger", None), ("", None), ("", "nobody"), (two.member_id, "nobody")]
    )
    assert (error, members) == (
        NONE,
        [
            (one.member_id, None, NONE),
            ("stranger", None, UNKNOWN_MEMBER_ID),
            ("", None, UNKNOWN_MEMBER_ID),
            ("", "nobody", UNKNOWN_MEMBER_ID),
            (two.member_id, "nobody", UNKNOWN_MEMBER_ID),
        ],
    )
    assert [each.member_id for each in admin.describe().members] == [two.member_id]
    assert member(group="no such group").leave_with([("m", None)]) == (NONE, [("m", None, UNKNOWN_MEMBER_ID)])


def test_a_member_whose_join_waits_leaves_by_another_connection(member: NewMember) -> None:
    together(member())
    two, admin = member(), member()
    two.obtain_member_id()
    two.ask_to_join()
    assert two.is_waiting()
    admin.leave_with([(two.member_id, None)])
    refused = two.joined()
    assert (refused.error, refused.member_id) == (UNKNOWN_MEMBER_ID, "")


def test_a_client_that_was_given_an_id_leaves_before_it_joined(member: NewMember) -> None:
    (one,) = together(member())
    two, three = member(), member()
    two.obtain_member_id()
    three.obtain_member_id()
    three.ask_to_join()
    await_rebalance(one)
    one.ask_to_join()
    assert one.is_waiting(), "two may still join"
    assert two.leave() == NONE
    assert one.joined().generation == three.joined().generation == 2


# members that are silent


def test_a_silent_member_is_removed(member: NewMember) -> None:
    one, two = together(member(session_ms=SESSION_MS_MIN), member(session_ms=SESSION_MS_MIN))
    while (error := one.heartbeat()) == NONE:
        assert one.is_waiting(0.2)
    assert error == REBALANCE_IN_PROGRESS
    assert two.heartbeat() == UNKNOWN_MEMBER_ID
    assert [each.member_id for each in one.join().members] == [one.member_id]


def test_a_member_that_does_not_rejoin_in_time_is_removed(member: NewMember) -> None:
    one, two = together(member(rebalance_ms=5_000), member(rebalance_ms=5_000))
    three = member(rebalance_ms=5_000)
    three.obtain_member_id()
    three.ask_to_join()
    await_rebalance(two)
    two.ask_to_join()
    joined = [two.joined(), three.joined()]
    assert {answer.generation for answer in joined} == {3} and {answer.error for answer in joined} == {NONE}
    assert one.heartbeat() == UNKNOWN_MEMBER_ID
    one.ask_to_join()
    assert one.joined().error == UNKNOWN_MEMBER_ID
    assign(two, three)


def test_a_member_that_does_not_sync_in_time_is_removed(member: NewMember) -> None:
    leader, follower = together(member(rebalance_ms=5_000), member(rebalance_ms=5_000))
    leader.ask_to_join()
    assert leader.is_waiting()
    follower.ask_to_join()
    assert leader.joined().leads and follower.joined().error == NONE
    assert leader.sync({leader.member_id: b"all"}).error == NONE
    assert leader.heartbeat() == follower.heartbeat() == NONE
    assert leader.is_waiting(6)
    assert leader.heartbeat() == REBALANCE_IN_PROGRESS
    assert follower.heartbeat() == UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_assign_in_time_is_removed(member: NewMember) -> None:
    leader, follower = together(member(rebalance_ms=5_000), member(rebalance_ms=5_000))
    leader.ask_to_join()
    assert leader.is_waiting()
    follower.ask_to_join()
    assert leader.joined().leads and follower.joined().error == NONE
    follower.ask_to_sync()
    assert follower.synced().error == REBALANCE_IN_PROGRESS
    assert leader.heartbeat() == UNKNOWN_MEMBER_ID
    assert follower.join().leads


def test_an_id_that_is_not_used_expires(member: NewMember) -> None:
    one = member(session_ms=SESSION_MS_MIN)
    one.obtain_member_id()
    assert one.is_waiting(SESSION_MS_MIN / 1000 + 1)
    one.ask_to_join()
    assert one.joined().error == UNKNOWN_MEMBER_ID


# static members


def test_a_static_member_gets_its_response_at_once(member: NewMember) -> None:
    one = member(instance="worker-1")
    one.ask_to_join()
    joined = one.joined()
    assert joined.error == NONE and joined.member_id.startswith("worker-1-")
    assert joined.members == [(one.member_id, "worker-1", ORDERS)]
    one.sync({one.member_id: b"all"})
    (described,) = one.describe(4).members
    assert (described.instance_id, described.assignment) == ("worker-1", b"all")


def static_pair(member: NewMember, **fields: Any) -> list[Member]:
    one, two = together(member(instance="worker-1", **fields), member(instance="worker-2", **fields))
    return [one, two]


def test_a_static_follower_comes_back_without_a_rebalance(member: NewMember) -> None:
    leader, follower = static_pair(member)
    again = member(instance=follower.instance)
    joined = again.join()
    assert joined == Joined(NONE, leader.generation, "consumer", "range", leader.member_id, False, again.member_id, [])
    assert again.member_id != follower.member_id
    assert again.sync().assignment == follower.member_id.encode()
    assert leader.heartbeat() == again.heartbeat() == NONE
    assert follower.heartbeat() == FENCED_INSTANCE_ID
    assert follower.sync().error == FENCED_INSTANCE_ID
    assert follower.leave() == FENCED_INSTANCE_ID
    follower.ask_to_join()
    assert follower.joined() == Joined(FENCED_INSTANCE_ID, -1, None, None, "", False, follower.member_id, [])
    follower.instance = None
    assert follower.heartbeat() == UNKNOWN_MEMBER_ID


def test_a_static_leader_comes_back_and_has_nothing_to_assign(member: NewMember) -> None:
    leader, follower = static_pair(member)
    again = member(instance=leader.instance)
    joined = again.join(9)
    assert (joined.skip_assignment, joined.leader) == (True, again.member_id)
    assert {each.member_id for each in joined.members} == {again.member_id, follower.member_id}
    assert again.sync().assignment == leader.member_id.encode()
    assert follower.heartbeat() == NONE


def test_a_static_leader_of_an_older_version_is_told_that_another_leads(member: NewMember) -> None:
    leader, follower = static_pair(member)
    again = member(instance=leader.instance)
    joined = again.join(8)
    assert (joined.leader, joined.members) == (leader.member_id, [])
    assert follower.heartbeat() == NONE


def test_a_static_member_comes_back_with_another_vote(member: NewMember) -> None:
    leader, follower = static_pair(member)
    again = member(instance=follower.instance, protocols=[("sticky", PAYMENTS)])
    again.ask_to_join()
    assert again.is_waiting() and leader.heartbeat() == REBALANCE_IN_PROGRESS
    leader.ask_to_join()
    assert (again.joined().protocol, leader.joined().generation) == ("sticky", 3)


def test_a_static_member_comes_back_while_it_is_waited_for(member: NewMember) -> None:
    leader, follower = static_pair(member)
    leader.ask_to_join()
    assert leader.is_waiting()
    again = member(instance=leader.instance)
    again.ask_to_join()
    assert leader.joined() == Joined(FENCED_INSTANCE_ID, -1, None, None, "", False, leader.member_id, [])
    follower.ask_to_join()
    assert again.joined().generation == follower.joined().generation == 3
    assign(again, follower)


def test_a_static_member_comes_back_while_the_leader_assigns(member: NewMember) -> None:
    leader, follower = static_pair(member)
    leader.ask_to_join()
    assert leader.is_waiting()
    follower.ask_to_join()
    assert leader.joined().leads and follower.joined().generation == 3
    follower.ask_to_sync()
    assert follower.is_waiting()
    again = member(instance=follower.instance)
    again.ask_to_join()
    assert follower.synced() == Synced(FENCED_INSTANCE_ID, None, None, b"")
    assert leader.sync({}).error == REBALANCE_IN_PROGRESS
    leader.ask_to_join()
    assert leader.joined().generation == again.joined().generation == 4
    assign(leader, again)


def test_a_static_member_is_removed_by_its_name(member: NewMember) -> None:
    leader, follower = static_pair(member)
    admin = member()
    assert admin.leave_with([("", follower.instance)]) == (NONE, [("", follower.instance, NONE)])
    assert follower.heartbeat() == UNKNOWN_MEMBER_ID and leader.heartbeat() == REBALANCE_IN_PROGRESS


def test_a_static_member_that_does_not_join_in_time_stays_in_the_group(member: NewMember) -> None:
    leader, _ = static_pair(member, rebalance_ms=5_000)
    leader.ask_to_join()
    joined = leader.joined()
    assert (joined.generation, len(joined.members)) == (3, 2)


def test_a_static_member_names_an_instance_that_is_not_there(member: NewMember) -> None:
    (one,) = together(member())
    one.instance = "worker-1"
    assert one.heartbeat() == UNKNOWN_MEMBER_ID
    assert one.sync().error == UNKNOWN_MEMBER_ID
    one.ask_to_join()
    assert one.joined().error == UNKNOWN_MEMBER_ID


# commits


def test_members_commit_in_their_generation_except_during_a_rebalance(member: NewMember, topic: str) -> None:
    leader, follower = together(member(), member())
    assert follower.commit(topic, 5) == NONE
    assert follower.commit(topic, 5, generation=1) == ILLEGAL_GENERATION
    assert follower.commit(topic, 5, generation=-1) == ILLEGAL_GENERATION
    assert member().commit(topic, 5) == UNKNOWN_MEMBER_ID
    assert member(member_id="stranger", generation=2).commit(topic, 5) == UNKNOWN_MEMBER_ID
    leader.ask_to_join()
    assert leader.is_waiting()
    assert follower.commit(topic, 6) == NONE, "before it joins again"
    follower.ask_to_join()
    assert follower.joined().generation == leader.joined().generation == 3
    assert follower.commit(topic, 7, generation=2) == ILLEGAL_GENERATION
    assert follower.commit(topic, 7) == REBALANCE_IN_PROGRESS
    assign(leader, follower)
    assert follower.commit(topic, 7) == NONE
    leader.leave()
    follower.leave()
    assert follower.commit(topic, 8) == UNKNOWN_MEMBER_ID
    assert member().commit(topic, 8) == NONE, "the group has no members"
    assert member(member_id="anybody").commit(topic, 8) == NONE


def test_a_replaced_static_member_cannot_commit(member: NewMember, topic: str) -> None:
    _, follower = static_pair(member)
    again = member(instance=follower.instance)
    again.join()
    assert follower.commit(topic, 5) == FENCED_INSTANCE_ID
    assert again.commit(topic, 5) == NONE


def test_a_commit_counts_as_a_heartbeat(member: NewMember, topic: str) -> None:
    one, two = together(member(session_ms=SESSION_MS_MIN), member(session_ms=SESSION_MS_MIN))
    for _ in range(9):
        assert one.commit(topic, 5) == NONE and two.heartbeat() in (NONE, REBALANCE_IN_PROGRESS)
        assert one.is_waiting(0.9)
    assert two.heartbeat() == NONE


# descriptions and deletion


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_each_version(member: NewMember, group: str, version: int) -> None:
    one = member()
    nothing = one.describe(version)
    assert (nothing.group, nothing.state, nothing.protocol_type, nothing.members) == (group, "Dead", "", [])
    if version >= 6:
        assert (nothing.error, nothing.message) == (GROUP_ID_NOT_FOUND, f"Group {group} not found.")
    else:
        assert (nothing.error, nothing.message) == (NONE, None)
    assert nothing.operations == (OPERATIONS_NOT_ASKED_FOR if version >= 3 else None)
    together(one)
    described = one.describe(version, operations=version >= 3)
    assert (described.error, described.state, described.protocol) == (NONE, "Stable", "range")
    assert described.operations == (ALL_GROUP_OPERATIONS if version >= 3 else None)
    assert described.members == [(one.member_id, None, "raw-member", "/127.0.0.1", ORDERS, one.member_id.encode())]


def test_operations_on_a_group_that_does_not_exist(member: NewMember) -> None:
    one = member()
    assert one.describe(5, operations=True).operations == ALL_GROUP_OPERATIONS
    assert one.describe(6, operations=True).operations == OPERATIONS_NOT_ASKED_FOR


def test_a_group_in_use_is_not_deleted(member: NewMember) -> None:
    one, admin = member(), member()
    assert admin.delete() == GROUP_ID_NOT_FOUND
    together(one)
    assert admin.delete() == NON_EMPTY_GROUP
    one.ask_to_join()
    assert one.joined().error == NONE
    assert admin.delete() == NON_EMPTY_GROUP
    one.leave()
    assert admin.delete() == NONE
    assert admin.describe().state == "Dead"
    assert admin.delete() == GROUP_ID_NOT_FOUND


def test_a_deleted_group_starts_again(member: NewMember) -> None:
    (one,) = together(member())
    one.leave()
    assert member().delete() == NONE
    (two,) = together(member())
    assert two.generation == 1
