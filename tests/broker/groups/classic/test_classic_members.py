import pytest
from grouping import Asked

from tailrace.broker.groups.classic.classic_member import ClassicMember
from tailrace.broker.groups.classic.classic_members import ClassicMembers
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def member(member_id: str, *protocols: str, instance_id: str | None = None) -> ClassicMember:
    return ClassicMember(
        Participant(member_id, instance_id, "client", "/h"),
        60_000,
        10_000,
        dict.fromkeys(protocols or ("range",), b"metadata"),
    )


def members(*them: ClassicMember) -> ClassicMembers:
    group = ClassicMembers()
    for each in them:
        group.add(each)
    return group


def error_of_check(group: ClassicMembers, member_id: str, instance_id: str | None) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        group.check(member_id, instance_id)
    return raised.value.code


def test_a_named_member_must_exist_and_not_be_replaced() -> None:
    static = member("s-1", instance_id="s")
    group = members(member("a"), static)
    assert group.check("s-1", "s") is static
    assert group.check("s-1", None) is static, "a client that does not say its instance"
    assert error_of_check(group, "b", None) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of_check(group, "s-0", "s") == ErrorCode.FENCED_INSTANCE_ID
    assert error_of_check(group, "a", "other") == ErrorCode.UNKNOWN_MEMBER_ID
    group.remove(static)
    assert error_of_check(group, "s-1", "s") == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_member_leads_and_when_it_goes_the_next() -> None:
    a, b = member("a"), member("b")
    group = members(a, b)
    assert group.leader is a
    group.remove(a)
    assert group.leader is b
    group.remove(b)
    assert group.leader is None and group.leader_id is None


def test_a_protocol_that_all_know_is_voted_for() -> None:
    group = members(member("a", "x", "y", "z"), member("b", "y", "x"), member("c", "z", "y", "x"))
    assert group.vote() == "y", "two of three like it best of x and y; z is not known to all"
    assert group.all_support_one_of({"z": b"", "y": b""})
    assert not group.all_support_one_of({"z": b""})
    assert not group.all_support_one_of({})


def test_the_counts_follow_members_that_join_change_and_leave() -> None:
    a, b = member("a", "x"), member("b", "x", "y")
    group = members(a, b)
    group.park_join(a, Asked())
    assert group.joining == 1
    group.update(b, {"y": b"more", "x": b""}, 1000, 2000)
    assert (b.rebalance_timeout_ms, b.session_timeout_ms) == (1000, 2000)
    assert group.bytes_held == a.bytes_held + b.bytes_held
    group.remove(a)
    assert group.joining == 0 and group.bytes_held == b.bytes_held
    assert group.all_support_one_of({"y": b""})
    group.remove(b)
    assert group.bytes_held == 0 and not group._supporting and len(group) == 0


def test_a_second_request_takes_the_place_of_the_first() -> None:
    a = member("a")
    group = members(a)
    first, second = Asked(), Asked()
    assert group.park_join(a, first) is None
    assert group.park_join(a, second) is first
    assert group.joining == 1
    assert group.take_join(a) is second and group.take_join(a) is None
    assert group.joining == 0


def test_the_leader_must_have_joined() -> None:
    a, b = member("a"), member("b")
    group = members(a, b)
    assert not group.elect_joined_leader() and group.leader is a
    group.park_join(b, Asked())
    assert group.elect_joined_leader() and group.leader is b
    group.park_join(a, Asked())
    assert group.elect_joined_leader() and group.leader is b


def test_the_longest_rebalance_timeout_counts() -> None:
    a, b = member("a"), member("b")
    b.rebalance_timeout_ms = 90_000
    assert members(a, b).rebalance_timeout_ms == 90_000
    assert ClassicMembers().rebalance_timeout_ms == 0
