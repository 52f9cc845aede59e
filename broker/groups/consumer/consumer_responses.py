"""Builds the response to a ConsumerGroupHeartbeat."""

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.assignments import listed
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

from .consumer_checks import JOINING
from .consumer_group import ConsumerGroup
from .consumer_member import ConsumerMember, CurrentAssignment

SOON_MS_MIN = 500
SOON_MS_PER_MEMBER = 20
"""The heartbeat interval while the group is reconciling or may soon change again, as a minimum and per member.

With a short interval members do not wait long for partitions that others revoke. The interval grows with the number of
members, so that a large group does not send more heartbeats per second than a small one.
"""


def heartbeat_response(
    request: ConsumerGroupHeartbeatRequest,
    group: ConsumerGroup,
    member: ConsumerMember,
    before: CurrentAssignment,
    settings: GroupSettings,
    moment: Moment,
) -> ConsumerGroupHeartbeatResponse:
    """Returns the response. It has the assignment if that has changed.

    It also has the assignment if the member sent all its fields, because the member may have lost its assignment.
    """
    current = member.current
    has_all_fields = request.member_epoch == JOINING or (
        request.rebalance_timeout_ms != -1
        and request.topic_partitions is not None
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
    )
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=_interval_ms(group, settings, moment),
    )
    if has_all_fields or current.assigned.keys() != before.assigned.keys():
        response.assignment = Assignment(listed(current.assigned, TopicPartitions))
    return response


def _interval_ms(group: ConsumerGroup, settings: GroupSettings, moment: Moment) -> int:
    interval_ms = settings.consumer_heartbeat_interval_ms
    since_ms = moment.now_ms - group.target_made_ms
    # Members often join and leave together, so another assignment is likely when the interval ends.
    was_assigned_recently = 0 <= since_ms < settings.consumer_assignment_interval_ms
    if group.unreconciled or group.epoch > group.target_epoch or was_assigned_recently:
        return min(max(SOON_MS_MIN, SOON_MS_PER_MEMBER * len(group.members)), interval_ms)
    return interval_ms
