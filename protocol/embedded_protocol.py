"""Reads and writes the subscriptions and assignments that consumers exchange inside the classic protocol.

Each is two bytes of version and a message that the broker usually does not read. The coordinator reads it if it makes
the assignment itself: when a classic group becomes a consumer group, and for members of a consumer group that use the
classic protocol. The command line reads it as a member of a group, and to describe groups. Newer versions than ours
begin with the fields of the newest version that we know.
"""

import struct
from typing import NamedTuple

from .codec.compile import decode, encode_whole
from .error_codes import RemoteProtocolError
from .messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from .messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose members are consumers: of all consumer groups, and of most classic groups."""
NEWEST_VERSION = 3
_VERSION = struct.Struct(">h")


class Subscription(NamedTuple):
    topics: frozenset[str]
    owned: list[TopicPartition]
    rack_id: str | None


def read_subscription(metadata: bytes) -> Subscription:
    """Decodes a subscription. Raises RemoteProtocolError if that fails."""
    message = decode(ConsumerProtocolSubscription, version_of(metadata), metadata, _VERSION.size)
    return Subscription(frozenset(message.topics), message.owned_partitions, message.rack_id)


def read_topics(metadata: bytes) -> frozenset[str]:
    """Decodes only the topics of a subscription, which all versions begin with. Raises RemoteProtocolError."""
    version_of(metadata)
    return frozenset(decode(ConsumerProtocolSubscription, 0, metadata, _VERSION.size).topics)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Decodes an assignment, which is empty for a member without partitions. Raises RemoteProtocolError."""
    if not assignment:
        return ConsumerProtocolAssignment()
    return decode(ConsumerProtocolAssignment, version_of(assignment), assignment, _VERSION.size)


def with_version(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    """Encodes a message with its version before it."""
    return _VERSION.pack(version) + encode_whole(message, version)


def version_of(message: bytes) -> int:
    """Returns the version in which to read a message. Raises RemoteProtocolError if the message has none."""
    try:
        version: int = _VERSION.unpack_from(message)[0]
    except struct.error:
        raise RemoteProtocolError("the message has no version") from None
    if version < 0:
        raise RemoteProtocolError(f"the version {version} is invalid")
    return min(version, NEWEST_VERSION)
