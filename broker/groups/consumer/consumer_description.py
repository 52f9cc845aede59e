"""Describes a consumer group for ConsumerGroupDescribe."""

from collections.abc import Iterable

from tailrace.broker.groups.assignment.assignments import NO_PARTITIONS, TopicPartition, by_topic
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

from .consumer_group import ConsumerGroup

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_group(group: ConsumerGroup, assignors: tuple[str, ...], cluster: Cluster) -> DescribedGroup:
    members = [
        Member(
            member_id=member.member_id,
            instance_id=member.profile.instance_id,
            rack_id=member.profile.rack_id,
            member_epoch=member.current.epoch,
            client_id=member.profile.client_id,
            client_host=member.profile.host,
            subscribed_topic_names=sorted(member.profile.topic_names),
            subscribed_topic_regex=member.profile.topic_pattern,
            assignment=_assignment([*member.current.assigned, *member.current.revoking], cluster),
            target_assignment=_assignment(group.targets.get(member.member_id, NO_PARTITIONS), cluster),
            member_type=CONSUMER_MEMBER if member.profile.classic is None else CLASSIC_MEMBER,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(assignors),
        members=members,
    )


def _assignment(partitions: Iterable[TopicPartition], cluster: Cluster) -> Assignment:
    """Lists the partitions of existing topics. A deleted topic has no name to describe it by."""
    return Assignment(
        [
            TopicPartitions(topic_id, topic.name, numbers)
            for topic_id, numbers in by_topic(partitions).items()
            if (topic := cluster.topic_by_id(topic_id)) is not None
        ]
    )
