"""Converts a classic group to its record in the log and back.

The record has the generation, the members, and the assignment of each member.
"""

from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata

from .classic_member import ClassicMember
from .classic_members import ClassicMembers


def group_record(
    group_id: str, protocol_type: str, generation: int, protocol: str | None, members: ClassicMembers, since_ms: int
) -> GroupRecord:
    value = GroupMetadataValue(
        protocol_type,
        generation,
        protocol,
        members.leader_id,
        since_ms,
        [
            MemberMetadata(
                member.member_id,
                member.instance_id,
                member.participant.client_id,
                member.participant.host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(protocol),
                member.assignment,
            )
            for member in members
        ],
    )
    return GroupRecord(GroupMetadataKey(group_id), value)


def group_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group_id), None)


def members_from(value: GroupMetadataValue) -> ClassicMembers:
    """Returns the members in the record. Of their protocols the record has only the chosen one."""
    members = ClassicMembers()
    for stored in value.members:
        members.add(
            ClassicMember(
                Participant(stored.member_id, stored.group_instance_id, stored.client_id, stored.client_host),
                stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout,
                stored.session_timeout,
                {value.protocol or "": stored.subscription},
                stored.assignment,
            )
        )
    members.leader_id = value.leader if value.leader is not None and value.leader in members else None
    return members
