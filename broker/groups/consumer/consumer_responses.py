"""What a member of a KIP-848 group is told after a heartbeat, and when it is to come again."""

from tailrace.broker.groups.assignment.assignments import listed
from tailrace.broker.groups.common.coordinator_settings import GroupSettings
from tailrace.broker.groups.common.moment import Moment
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
"""How soon members are to ask again while their group has not settled, or may be about to change again: so that nobody
waits long for what others give up, and large groups do not ask more often than small ones."""


def heartbeat_response(
    request: ConsumerGroupHeartbeatRequest,
    group: ConsumerGroup,
    member: ConsumerMember,
    before: CurrentAssignment,
    settings: GroupSettings,
    moment: Moment,
) -> ConsumerGroupHeartbeatResponse:
    """It names the assignment when that has changed, and to members that said everything: they may have lost it."""
    current = member.current
    said_everything = request.member_epoch == JOINING or (
        request.rebalance_timeout_ms != -1
        and request.topic_partitions is not None
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
    )
    reply = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=_interval_ms(group, settings, moment),
    )
    if said_everything or current.assigned.keys() != before.assigned.keys():
        reply.assignment = Assignment(listed(current.assigned, TopicPartitions))
    return reply


def _interval_ms(group: ConsumerGroup, settings: GroupSettings, moment: Moment) -> int:
    interval_ms = settings.consumer_heartbeat_interval_ms
    since_ms = moment.now_ms - group.target_made_ms
    # Members mostly come and go together, so another assignment is likely as soon as there may be one.
    was_assigned_lately = 0 <= since_ms < settings.consumer_assignment_interval_ms
    if group.unreconciled or group.epoch > group.target_epoch or was_assigned_lately:
        return min(max(SOON_MS_MIN, SOON_MS_PER_MEMBER * len(group.members)), interval_ms)
    return interval_ms
