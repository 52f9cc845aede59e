"""Converts the responses of coordinators to facts about groups."""

from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.consumer_group_describe import Assignment
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from tailrace.protocol.messages.describe_groups import DescribedGroup as ClassicGroup
from tailrace.protocol.messages.offset_fetch import OffsetFetchResponseGroup

from .group_assignment import assigned_partitions, subscribed_topics
from .group_facts import Group, Member, Progress
from .log_facts import Partition
from .server_connection import RefusedError, refusal

CLASSIC = "classic"
CONSUMER = "consumer"
STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead")

_DEAD = "Dead"
"""The state with which older versions describe a group that does not exist."""


def no_such_group(group_id: str) -> RefusedError:
    """Returns the refusal for an unknown group."""
    return RefusedError(f"there is no group {group_id}", ErrorCode.GROUP_ID_NOT_FOUND)


def is_not_found(answer: object) -> bool:
    """Whether a result means that there is no such group."""
    return answer is None or (isinstance(answer, RefusedError) and answer.code == ErrorCode.GROUP_ID_NOT_FOUND)


def progress(group: OffsetFetchResponseGroup) -> list[Progress]:
    """Returns the committed offsets in a response to OffsetFetch."""
    return [
        Progress(Partition(topic.name, each.partition_index), each.committed_offset, each.metadata or "")
        for topic in group.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    ]


def refused_partitions(group: OffsetFetchResponseGroup) -> dict[Partition, RefusedError]:
    """Returns the refusals in a response to OffsetFetch."""
    refused = {
        Partition(topic.name, each.partition_index): refusal(each)
        for topic in group.topics
        for each in topic.partitions
    }
    return {partition: why for partition, why in refused.items() if why is not None}


def consumer_group(group: ConsumerGroup, coordinator: int) -> Group:
    """Converts the description of a KIP-848 group."""
    members = tuple(
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            each.instance_id,
            _assigned(each.assignment),
            _assigned(each.target_assignment),
            each.member_epoch,
            frozenset(each.subscribed_topic_names),
            each.subscribed_topic_regex or "",
        )
        for each in group.members
    )
    return Group(
        group.group_id,
        CONSUMER,
        CONSUMER_PROTOCOL_TYPE,
        group.group_state,
        coordinator,
        group.assignor_name,
        group.group_epoch,
        group.assignment_epoch,
        members,
    )


def _assigned(assignment: Assignment) -> frozenset[Partition]:
    return frozenset(
        Partition(each.topic_name, number) for each in assignment.topic_partitions for number in each.partitions
    )


def classic_group(group: ClassicGroup, coordinator: int) -> Group | RefusedError:
    """Converts the description of a classic group."""
    refused = refusal(group)
    if (refused is not None and is_not_found(refused)) or group.group_state == _DEAD:
        return no_such_group(group.group_id)
    if refused is not None:
        return refused
    are_consumers = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    members = tuple(
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            each.group_instance_id,
            _owned(each.member_assignment) if are_consumers else frozenset(),
            topics=subscribed_topics(each.member_metadata) if are_consumers else frozenset(),
        )
        for each in group.members
    )
    return Group(
        group.group_id,
        CLASSIC,
        group.protocol_type,
        group.group_state,
        coordinator,
        group.protocol_data,
        members=members,
    )


def _owned(data: bytes) -> frozenset[Partition]:
    """Decodes the partitions of a member; a member with unreadable data has none."""
    try:
        return frozenset(assigned_partitions(data))
    except RemoteProtocolError:
        return frozenset()
