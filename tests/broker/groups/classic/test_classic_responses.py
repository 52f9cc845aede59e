import pytest

from tailrace.broker.groups.classic import classic_responses as classic_responses
from tailrace.broker.groups.classic.classic_member import ClassicMember
from tailrace.broker.groups.classic.classic_members import ClassicMembers
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

LEADER = ClassicMember(Participant("l", None, "cl", "/1"), 60_000, 10_000, {"x": b"lx", "y": b"ly"}, b"for l")
FOLLOWER = ClassicMember(Participant("f", "worker", "cf", "/2"), 60_000, 10_000, {"x": b"fx"}, b"for f")


@pytest.fixture
def members() -> ClassicMembers:
    members = ClassicMembers()
    members.add(LEADER)
    members.add(FOLLOWER)
    return members


def test_only_the_leader_gets_the_members(members: ClassicMembers) -> None:
    told = classic_responses.joined(LEADER, members, 7, "consumer", "x")
    assert told == JoinGroupResponse(
        generation_id=7,
        protocol_type="consumer",
        protocol_name="x",
        leader="l",
        member_id="l",
        members=[JoinGroupResponseMember("l", None, b"lx"), JoinGroupResponseMember("f", "worker", b"fx")],
    )
    told = classic_responses.joined(FOLLOWER, members, 7, "consumer", "x")
    assert (told.leader, told.member_id, told.members) == ("l", "f", [])


def test_each_member_gets_its_own_assignment() -> None:
    assert [classic_responses.synced(each, "consumer", "x").assignment for each in (LEADER, FOLLOWER)] == [
        b"for l",
        b"for f",
    ]


def test_a_removed_member_learns_that_it_was_removed() -> None:
    removed, replaced = classic_responses.join_of_removed(), classic_responses.join_of_replaced(FOLLOWER)
    assert (removed.error_code, removed.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert (replaced.error_code, replaced.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "f")
    assert classic_responses.removed().code == ErrorCode.UNKNOWN_MEMBER_ID
    assert "worker" in classic_responses.replaced(FOLLOWER).message
    assert classic_responses.rebalancing().code == ErrorCode.REBALANCE_IN_PROGRESS


def test_errors_are_new_each_time() -> None:
    """An error object that is raised repeatedly would collect the frames of each raise."""
    assert classic_responses.rebalancing() is not classic_responses.rebalancing()


def test_a_description_has_metadata_while_there_is_a_protocol(members: ClassicMembers) -> None:
    stable = classic_responses.described("g", "Stable", members, "consumer", "x")
    assert (stable.group_id, stable.group_state, stable.protocol_data) == ("g", "Stable", "x")
    assert [member.member_metadata for member in stable.members] == [b"lx", b"fx"]
    preparing = classic_responses.described("g", "PreparingRebalance", members, "consumer", None)
    assert preparing.protocol_data == "" and [member.member_metadata for member in preparing.members] == [b"", b""]
    assert [member.member_assignment for member in preparing.members] == [b"for l", b"for f"]
