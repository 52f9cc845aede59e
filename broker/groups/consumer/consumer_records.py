"""Converts a consumer group to its records in the log and back.

There are records of the group, and three of each member: its profile, its target assignment, and its current
assignment. Sets are written in sorted order, so that equal states have equal bytes.
"""

from collections.abc import Mapping
from typing import TypeAlias

from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition, by_topic, listed
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.protocol.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from tailrace.protocol.group_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from tailrace.protocol.group_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from tailrace.protocol.group_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from tailrace.protocol.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from tailrace.protocol.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from tailrace.protocol.group_records.consumer_group_target_assignment_member import (
    TopicPartition as TargetPartitions,
)
from tailrace.protocol.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

from .consumer_member import ClassicProtocols, CurrentAssignment, MemberState, Profile

ConsumerKey: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupRegularExpressionKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
)

# records of the group


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash))


def epoch_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupMetadataKey(group_id), None)


def pattern_record(group_id: str, pattern: str, names: frozenset[str], version: int, now_ms: int) -> GroupRecord:
    value = ConsumerGroupRegularExpressionValue(sorted(names), version, now_ms)
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id, pattern), value)


def pattern_tombstone(group_id: str, pattern: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id, pattern), None)


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, now_ms)
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def target_epoch_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), None)


# records of members


def profile_record(group_id: str, member_id: str, profile: Profile) -> GroupRecord:
    value = ConsumerGroupMemberMetadataValue(
        profile.instance_id,
        profile.rack_id,
        profile.client_id,
        profile.host,
        sorted(profile.topic_names),
        profile.topic_pattern,
        profile.rebalance_timeout_ms,
        profile.assignor,
    )
    if profile.classic is not None:
        value.classic_member_metadata = ClassicMemberMetadata(
            profile.classic.session_timeout_ms,
            [ClassicProtocol(name, metadata) for name, metadata in profile.classic.protocols],
        )
    return GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), value)


def profile_from(value: ConsumerGroupMemberMetadataValue) -> Profile:
    stored = value.classic_member_metadata
    classic = stored and ClassicProtocols(
        stored.session_timeout_ms, tuple((protocol.name, protocol.metadata) for protocol in stored.supported_protocols)
    )
    return Profile(
        value.client_id,
        value.client_host,
        value.instance_id,
        value.rack_id,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        classic or None,
    )


def target_record(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(listed(target, TargetPartitions))
    return GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def current_record(group_id: str, member_id: str, current: CurrentAssignment) -> GroupRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        current.epoch,
        current.previous_epoch,
        current.state,
        _with_epochs(current.assigned),
        _with_epochs(current.revoking),
    )
    return GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), value)


def current_from(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if value.state in _STATES else MemberState.UNKNOWN,
        _epochs_in(value.assigned_partitions, value.member_epoch),
        _epochs_in(value.partitions_pending_revocation, value.member_epoch),
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Returns the records that delete a member, in the reverse order of those that create it."""
    return [
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


_STATES = frozenset(MemberState)


def _with_epochs(partitions: Mapping[TopicPartition, int]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id, numbers, [partitions[TopicPartition(topic_id, number)] for number in numbers])
        for topic_id, numbers in by_topic(partitions).items()
    ]


def _epochs_in(topics: list[TopicPartitions], epoch: int) -> dict[TopicPartition, int]:
    """Returns the partitions with their epochs. A record without epochs stands for the member epoch."""
    return {
        TopicPartition(topic.topic_id, number): since
        for topic in topics
        for number, since in zip(
            topic.partitions, topic.assignment_epochs or [epoch] * len(topic.partitions), strict=False
        )
    }
