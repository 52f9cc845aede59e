"""What members of a classic consumer group tell each other through the coordinator: topics, and who reads what.

The assignor is `range`, which every stock client offers by default.
"""

from collections.abc import Mapping, Sequence

from tailrace.protocol.codec.compile import decode, encode_whole
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

from .log_facts import Partition, by_topic

PROTOCOL_TYPE = "consumer"
ASSIGNOR = "range"
_VERSION = 0
_VERSION_SIZE = 2


def subscription_data(topics: Sequence[str]) -> bytes:
    """Encodes the topics to which a member subscribes."""
    return _with_version(ConsumerProtocolSubscription(sorted(topics)))


def subscribed_topics(data: bytes) -> list[str]:
    """Decodes the topics of a member; a member with unreadable data has none."""
    try:
        return decode(ConsumerProtocolSubscription, _VERSION, data, _VERSION_SIZE).topics
    except RemoteProtocolError:
        return []


def assignment_data(partitions: Sequence[Partition]) -> bytes:
    """Encodes the partitions that a member shall read."""
    return _with_version(
        ConsumerProtocolAssignment([TopicPartition(topic, numbers) for topic, numbers in by_topic(partitions)])
    )


def assigned_partitions(data: bytes) -> list[Partition]:
    """Decodes the partitions that a member shall read. Raises RemoteProtocolError."""
    if not data:
        return []
    assignment = decode(ConsumerProtocolAssignment, _VERSION, data, _VERSION_SIZE)
    return [Partition(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions]


def _with_version(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    return _VERSION.to_bytes(_VERSION_SIZE) + encode_whole(message, _VERSION)


def range_assignment(
    topics_of: Mapping[str, Sequence[str]], partitions_of: Mapping[str, Sequence[Partition]]
) -> dict[str, list[Partition]]:
    """Divides the partitions of each topic among the members that subscribe to it, in neighbouring ranges.

    The first members get one partition more if the partitions cannot be divided evenly, as with Kafka's range assignor.
    """
    assigned: dict[str, list[Partition]] = {member: [] for member in topics_of}
    for topic, partitions in sorted(partitions_of.items()):
        members = sorted(member for member, topics in topics_of.items() if topic in topics)
        position = 0
        for index, member in enumerate(members):
            following = position + len(partitions) // len(members) + (index < len(partitions) % len(members))
            assigned[member] += partitions[position:following]
            position = following
    return assigned
