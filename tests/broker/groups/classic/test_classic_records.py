from tailrace.broker.groups.classic.classic_member import ClassicMember
from tailrace.broker.groups.classic.classic_members import ClassicMembers
from tailrace.broker.groups.classic.classic_records import group_record, group_tombstone, members_from
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def two_members() -> ClassicMembers:
    members = ClassicMembers()
    members.add(
        ClassicMember(Participant("a", None, "ca", "/1"), 60_000, 10_000, {"x": b"ax", "y": b"ay"}, b"assigned to a")
    )
    members.add(ClassicMember(Participant("s-1", "s", "cs", "/2"), 30_000, 45_000, {"y": b"sy"}, b"assigned to s"))
    members.leader_id = "s-1"
    return members


def test_a_record_has_of_each_member_what_it_said_for_the_protocol() -> None:
    record = group_record("g", "consumer", 7, "y", two_members(), 99)
    assert record.key == GroupMetadataKey("g")
    assert record.value == GroupMetadataValue(
        "consumer",
        7,
        "y",
        "s-1",
        99,
        [
            MemberMetadata("a", None, "ca", "/1", 60_000, 10_000, b"ay", b"assigned to a"),
            MemberMetadata("s-1", "s", "cs", "/2", 30_000, 45_000, b"sy", b"assigned to s"),
        ],
    )


def test_members_come_back_as_they_were_stored() -> None:
    record = group_record("g", "consumer", 7, "y", two_members(), 99)
    members = members_from(record.value)
    assert [member.member_id for member in members] == ["a", "s-1"]
    assert members.leader_id == "s-1" and members.vote() == "y"
    found = members.with_instance("s")
    assert found is not None and found.assignment == b"assigned to s" and found.protocols == {"y": b"sy"}
    assert group_record("g", "consumer", 7, "y", members, 99) == record


def test_old_records_have_no_rebalance_timeout() -> None:
    stored = GroupMetadataValue("consumer", 1, "y", "gone", 99, [MemberMetadata("a", session_timeout=10_000)])
    members = members_from(stored)
    (member,) = members
    assert member.rebalance_timeout_ms == 10_000
    assert members.leader_id is None, "the leader it names is no member"


def test_a_tombstone() -> None:
    record = group_tombstone("g")
    assert (record.key, record.value) == (GroupMetadataKey("g"), None)
