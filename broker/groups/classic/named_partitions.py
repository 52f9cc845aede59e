"""Converts the partitions of members to topic names, which the classic protocol uses, and back to topic ids."""

from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition, by_topic
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.embedded_protocol import version_of, with_version
from tailrace.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from tailrace.protocol.messages.consumer_protocol_assignment import (
    TopicPartition as Assigned,
)
from tailrace.protocol.messages.consumer_protocol_subscription import (
    TopicPartition as Owned,
)


def write_assignment(partitions: Partitions, metadata: bytes, cluster: Cluster) -> bytes:
    """Encodes an assignment in the version of the member's metadata. Deleted topics are left out."""
    assigned = [
        Assigned(topic.name, numbers)
        for topic_id, numbers in by_topic(partitions).items()
        if (topic := cluster.topic_by_id(topic_id)) is not None
    ]
    return with_version(ConsumerProtocolAssignment(assigned), version_of(metadata))


def partitions_from_names(topics: list[Owned] | list[Assigned], cluster: Cluster) -> Partitions:
    """Returns the named partitions that exist."""
    return frozenset(
        TopicPartition(topic.id, number)
        for named in topics
        if (topic := cluster.topics.get(named.topic)) is not None
        for number in named.partitions
        if 0 <= number < len(topic.partitions)
    )
