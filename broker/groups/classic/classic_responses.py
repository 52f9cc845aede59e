"""Builds the responses and errors for members of classic groups."""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tailrace.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tailrace.protocol.messages.sync_group import SyncGroupResponse

from .classic_member import ClassicMember
from .classic_members import ClassicMembers


def joined(
    member: ClassicMember, members: ClassicMembers, generation: int, protocol_type: str, protocol: str | None
) -> JoinGroupResponse:
    """Returns the response to a completed JoinGroup. Only the leader gets the list of members."""
    described = []
    if member.member_id == members.leader_id:
        described = [
            JoinGroupResponseMember(each.member_id, each.instance_id, each.metadata(protocol)) for each in members
        ]
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type=protocol_type or None,
        protocol_name=protocol,
        leader=members.leader_id or "",
        member_id=member.member_id,
        members=described,
    )


def join_of_removed() -> JoinGroupResponse:
    """Returns the response to a removed member. It has no member id, so that the client forgets its id."""
    return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


def join_of_replaced(member: ClassicMember) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=member.member_id)


def join_again(member: ClassicMember) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)


def synced(member: ClassicMember, protocol_type: str, protocol: str | None) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=protocol_type or None, protocol_name=protocol, assignment=member.assignment)


def described(
    group_id: str, state: str, members: ClassicMembers, protocol_type: str, protocol: str | None
) -> DescribedGroup:
    """Describes the group. `protocol` is None unless the group is stable; then no metadata of members is included."""
    return DescribedGroup(
        group_id=group_id,
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member.member_id,
                member.instance_id,
                member.participant.client_id,
                member.participant.host,
                member.metadata(protocol),
                member.assignment,
            )
            for member in members
        ],
    )


def rebalancing() -> KafkaError:
    return KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the group is rebalancing: its members have to join again")


def removed() -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the member was removed from the group")


def replaced(member: ClassicMember) -> KafkaError:
    return KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"another member has the instance id {member.instance_id} now")
