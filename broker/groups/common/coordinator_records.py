"""Encodes and decodes the records of `__consumer_offsets` in Kafka's own formats.

Kafka's tools can therefore read our records, and we can read Kafka's. A key is two bytes of record type and a message.
A value is two bytes of message version and a message. A record without a value is a tombstone: it deletes its key. What
we write has the same bytes as what Apache Kafka 4.3 writes.
"""

from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from tailrace.protocol.codec.compile import decoder, encode_whole
from tailrace.protocol.codec.fields import Versions
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from tailrace.protocol.group_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from tailrace.protocol.group_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from tailrace.protocol.group_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from tailrace.protocol.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from tailrace.protocol.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from tailrace.protocol.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

RecordKey: TypeAlias = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)


class _Kind(NamedTuple):
    key: type[RecordKey]
    value: type[Any]
    value_version: int
    """The version of the value that we write."""
    values_read: range
    """The versions of the value that we can read."""


def _kind(key: type[RecordKey], value: type[Any], value_version: int = 0) -> _Kind:
    versions = Versions.parse(value.VERSIONS)
    return _Kind(key, value, value_version, range(versions.first, versions.last + 1))


_KINDS = {
    kind.key.RECORD_TYPE: kind
    for kind in (
        _kind(OffsetCommitKey, OffsetCommitValue, 4),
        _kind(GroupMetadataKey, GroupMetadataValue, 3),
        _kind(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        _kind(ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        _kind(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        _kind(ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        _kind(ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        _kind(ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        _kind(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    )
}

_KEY_VERSION = 0
_WITH_EXPIRY_VERSION = 1
"""The only version of an offset's value with an expiry time, which clients before Kafka 2.1 may give."""


class GroupRecord(Struct, frozen=True):
    key: RecordKey
    value: Any | None
    """A value of the class that belongs to the key's class, or None for a tombstone."""


BARRIER = GroupRecord(OffsetCommitKey(group="", topic="", partition=-1), None)
"""A record without effect: the tombstone of an offset that is never committed."""


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    kind = _KINDS[record.key.RECORD_TYPE]
    key = kind.key.RECORD_TYPE.to_bytes(2) + encode_whole(record.key, _KEY_VERSION)
    if record.value is None:
        return key, None
    version = kind.value_version
    if kind.value is OffsetCommitValue and record.value.expire_timestamp >= 0:
        version = _WITH_EXPIRY_VERSION
    return key, version.to_bytes(2) + encode_whole(record.value, version)


def decode_record(key: Buffer | None, value: Buffer | None) -> GroupRecord | None:
    """Decodes a record. Returns None for a type that we do not know, such as those of share groups.

    Raises KafkaError (CORRUPT_MESSAGE) and no other error.
    """
    if key is None or len(key) < 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record of __consumer_offsets has no key")
    kind = _KINDS.get(int.from_bytes(key[:2]))
    if kind is None:
        return None
    try:
        decoded, _ = decoder(kind.key, _KEY_VERSION)(memoryview(key), 2)
        return GroupRecord(decoded, None if value is None else _value(kind, value))
    except RemoteProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record of __consumer_offsets is corrupt: {error}") from None


def _value(kind: _Kind, value: Buffer) -> Any:
    version = int.from_bytes(value[:2])
    if len(value) < 2 or version not in kind.values_read:
        raise RemoteProtocolError(f"{kind.value.__name__} has no version {version}")
    return decoder(kind.value, version)(memoryview(value), 2)[0]
