"""Checks whether a heartbeat is refused, and with which error.

The error tells the client what to do next.
"""

from tailrace.broker.groups.assignment.assignments import Partitions
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.groups.common.name_limits import check_names
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

from .consumer_group import ConsumerGroup
from .consumer_member import LEFT_FOR_NOW, ConsumerMember, Profile

MEMBER_CHOOSES_ID_FROM = 1
"""The first version of ConsumerGroupHeartbeat in which clients choose their member ids."""
MEMBERS_BYTES_MAX = 64 << 20
"""The largest size of what a coordinator keeps in memory for the members of one group."""
JOINING = 0
"""The epoch with which a member joins, or joins again without partitions."""


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Checks what can be checked without the group. Raises KafkaError."""
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if not request.member_id.strip() and (api_version >= MEMBER_CHOOSES_ID_FROM or request.member_epoch != JOINING):
        raise _invalid("MemberId can't be empty.")
    if request.member_epoch < LEFT_FOR_NOW:
        raise _invalid("MemberEpoch is invalid.")
    if request.member_epoch == LEFT_FOR_NOW and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    if request.member_epoch == JOINING:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    check_names((request.group_id, request.member_id, request.instance_id, request.subscribed_topic_regex))
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def check_room(group: ConsumerGroup, member_id: str, settings: GroupSettings) -> None:
    """Raises KafkaError if the member is new and the group is full."""
    if member_id not in group.members and len(group.members) >= settings.consumer_members_max:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"the group {group.group_id} has {len(group.members)} members already",
        )


def check_size(group: ConsumerGroup, before: Profile, after: Profile) -> None:
    """Raises KafkaError if the new profile of a member makes the profiles of the group too large."""
    if after is not before and group.bytes_held - before.bytes_held + after.bytes_held > MEMBERS_BYTES_MAX:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"the members of the group {group.group_id} name too many topics"
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    """Raises KafkaError if the member epoch is wrong.

    The previous epoch is allowed while the member owns no partition that it has lost since: the response with the
    current epoch may have been lost.
    """
    current = member.current
    if epoch == current.epoch:
        return
    if epoch == current.previous_epoch < current.epoch and owned is not None and owned <= current.assigned.keys():
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member epoch is {current.epoch}, not {epoch}: the member has to abandon its partitions and join again",
    )


def check_instance(member: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Returns the static member. Raises KafkaError if the instance id belongs to no member or to another one."""
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID, f"the member {member.member_id} has the instance id {instance_id} now"
        )
    return member


def check_released(member: ConsumerMember, member_id: str) -> None:
    """Raises KafkaError if another member may not take the place of this static member."""
    if member.member_id != member_id and member.profile.classic is None and member.current.epoch != LEFT_FOR_NOW:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"the member {member.member_id} has the instance id {member.profile.instance_id} and has not left",
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
