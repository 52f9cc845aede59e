"""What consumers say inside the classic protocol: two bytes of version, then a message that brokers need not read.

The coordinator reads it where it assigns itself: when a group becomes a KIP-848 group, and for members of such a group
that still speak the classic protocol. A version that is newer than ours begins like the newest that we know.
"""

import struct
from typing import NamedTuple

from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition, by_topic
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.codec.compile import decode, encode_whole
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from tailrace.protocol.messages.consumer_protocol_assignment import (
    TopicPartition as Assigned,
)
from tailrace.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tailrace.protocol.messages.consumer_protocol_subscription import (
    TopicPartition as Owned,
)

CONSUMER = "consumer"
"""The protocol type of groups whose members say this."""
NEWEST_VERSION = 3
_VERSION = struct.Struct(">h")


class Subscription(NamedTuple):
    topics: frozenset[str]
    owned: list[Owned]
    rack_id: str | None


def read_subscription(metadata: bytes) -> Subscription:
    """Raises RemoteProtocolError."""
    message = decode(ConsumerProtocolSubscription, _version_of(metadata), metadata, _VERSION.size)
    return Subscription(frozenset(message.topics), message.owned_partitions, message.rack_id)


def read_topics(metadata: bytes) -> frozenset[str]:
    """Of a subscription, whatever the rest says: all versions begin like the first one. Raises RemoteProtocolError."""
    _version_of(metadata)
    return frozenset(decode(ConsumerProtocolSubscription, 0, metadata, _VERSION.size).topics)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Of a member that has been assigned nothing, it is empty. Raises RemoteProtocolError."""
    if not assignment:
        return ConsumerProtocolAssignment()
    return decode(ConsumerProtocolAssignment, _version_of(assignment), assignment, _VERSION.size)


def write_assignment(partitions: Partitions, metadata: bytes, cluster: Cluster) -> bytes:
    """In the version that the member with this metadata speaks. Topics that are gone are left out."""
    version = _version_of(metadata)
    assigned = [
        Assigned(topic.name, numbers)
        for topic_id, numbers in by_topic(partitions).items()
        if (topic := cluster.topic_by_id(topic_id)) is not None
    ]
    return _VERSION.pack(version) + encode_whole(ConsumerProtocolAssignment(assigned), version)


def partitions_named(topics: list[Owned] | list[Assigned], cluster: Cluster) -> Partitions:
    """Those that there are."""
    return frozenset(
        TopicPartition(topic.id, number)
        for named in topics
        if (topic := cluster.topics.get(named.topic)) is not None
        for number in named.partitions
        if 0 <= number < len(topic.partitions)
    )


def _version_of(message: bytes) -> int:
    try:
        version: int = _VERSION.unpack_from(message)[0]
    except struct.error:
        raise RemoteProtocolError("there is no version in it") from None
    if version < 0:
        raise RemoteProtocolError(f"{version} is no version")
    return min(version, NEWEST_VERSION)
