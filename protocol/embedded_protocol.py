"""Reads and writes the subscriptions and assignments inside the classic protocol.

Each is two bytes of version and a message that the broker usually does not read. The coordinator reads it if it makes
the assignment itself: when a classic group becomes a consumer group, and for members of a consumer group that use the
classic protocol. Newer versions than ours begin with the fields of the newest version that we know.
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

NEWEST_VERSION = 3
_VERSION = struct.Struct(">h")


class Subscription(NamedTuple):
    topics: frozenset[str]
    owned: list[Owned]
    rack_id: str | None


def read_subscription(metadata: bytes) -> Subscription:
    """Decodes a subscription. Raises RemoteProtocolError if that fails."""
    message = decode(ConsumerProtocolSubscription, _version_of(metadata), metadata, _VERSION.size)
    return Subscription(frozenset(message.topics), message.owned_partitions, message.rack_id)


def read_topics(metadata: bytes) -> frozenset[str]:
    """Decodes only the topics of a subscription, which all versions begin with. Raises RemoteProtocolError."""
    _version_of(metadata)
    return frozenset(decode(ConsumerProtocolSubscription, 0, metadata, _VERSION.size).topics)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Decodes an assignment, which is empty for a member without partitions. Raises RemoteProtocolError."""
    if not assignment:
        return ConsumerProtocolAssignment()
    return decode(ConsumerProtocolAssignment, _version_of(assignment), assignment, _VERSION.size)


def write_assignment(partitions: Partitions, metadata: bytes, cluster: Cluster) -> bytes:
    """Encodes an assignment in the version of the member's metadata. Deleted topics are left out."""
    version = _version_of(metadata)
    assigned = [
        Assigned(topic.name, numbers)
        for topic_id, numbers in by_topic(partitions).items()
        if (topic := cluster.topic_by_id(topic_id)) is not None
    ]
    return _VERSION.pack(version) + encode_whole(ConsumerProtocolAssignment(assigned), version)


def partitions_from_names(topics: list[Owned] | list[Assigned], cluster: Cluster) -> Partitions:
    """Returns the named partitions that exist."""
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
        raise RemoteProtocolError("the message has no version") from None
    if version < 0:
        raise RemoteProtocolError(f"the version {version} is invalid")
    return min(version, NEWEST_VERSION)
