"""What members of a classic consumer group tell each other through the coordinator: topics, and who reads what.

The assignor is `range`, which every stock client offers by default.
"""

from collections.abc import Collection, Mapping, Sequence

from tailrace.cluster.range_shares import range_shares
from tailrace.protocol.embedded_protocol import read_assignment, read_topics, with_version
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

from .log_facts import Partition, by_topic

ASSIGNOR = "range"
_VERSION = 0


def subscription_data(topics: Sequence[str]) -> bytes:
    """Encodes the topics to which a member subscribes."""
    return with_version(ConsumerProtocolSubscription(sorted(topics)), _VERSION)


def subscribed_topics(data: bytes) -> frozenset[str]:
    """Decodes the topics of a member; a member with unreadable data has none."""
    try:
        return read_topics(data)
    except RemoteProtocolError:
        return frozenset()


def assignment_data(partitions: Sequence[Partition]) -> bytes:
    """Encodes the partitions that a member shall read."""
    assigned = [TopicPartition(topic, numbers) for topic, numbers in by_topic(partitions)]
    return with_version(ConsumerProtocolAssignment(assigned), _VERSION)


def assigned_partitions(data: bytes) -> list[Partition]:
    """Decodes the partitions that a member shall read. Raises RemoteProtocolError."""
    assigned = read_assignment(data).assigned_partitions
    return [Partition(each.topic, number) for each in assigned for number in each.partitions]


def range_assignment(
    topics_of: Mapping[str, Collection[str]], partitions_of: Mapping[str, Sequence[Partition]]
) -> dict[str, list[Partition]]:
    """Divides the partitions of each topic among the members that subscribe to it, in neighbouring ranges.

    The first members get one partition more if the partitions cannot be divided evenly, as with Kafka's range assignor.
    """
    shares = range_shares(
        sorted(topics_of.items()), {topic: len(partitions) for topic, partitions in sorted(partitions_of.items())}
    )
    return {
        member: [partitions_of[topic][index] for topic, share in shares[member].items() for index in share]
        for member in topics_of
    }
