"""The committed offsets of groups, with their metadata and commit times.

There may be millions of them. Each is packed into about sixty bytes, which the garbage collector never visits.
"""

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from tailrace.protocol.codec.primitives import NO_UUID, uuid_of

NOT_GIVEN = -1
"""Stands for an expiry time or a leader epoch that the client has not given."""

_NEVER = 2**63 - 1
_NUMBERS = struct.Struct(">qiqq16s")
_NONE: dict[int, bytes] = {}


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = NOT_GIVEN
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int = NOT_GIVEN
    """The expiry time, which only clients before Kafka 2.1 give."""
    topic_id: UUID = NO_UUID
    """The id tells a topic from an earlier topic that had the same name."""

    def pack(self) -> bytes:
        numbers = _NUMBERS.pack(self.offset, self.leader_epoch, self.committed_ms, self.expires_ms, self.topic_id.bytes)
        return numbers + self.metadata.encode()

    @classmethod
    def unpack(cls, packed: bytes) -> "CommittedOffset":
        offset, leader_epoch, committed_ms, expires_ms, topic_id = _NUMBERS.unpack_from(packed)
        metadata = packed[_NUMBERS.size :].decode()
        return cls(offset, leader_epoch, metadata, committed_ms, expires_ms, uuid_of(topic_id))


class _GroupOffsets:
    __slots__ = ("earliest_expiry_ms", "oldest_commit_ms", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, bytes]] = {}
        self.oldest_commit_ms = _NEVER
        """No offset of the group was committed before this time."""
        self.earliest_expiry_ms = _NEVER
        """No offset of the group has an expiry time before this time."""


class CommittedOffsets:
    def __init__(self) -> None:
        self._groups: dict[str, _GroupOffsets] = {}

    # state

    def __len__(self) -> int:
        return sum(len(partitions) for group in self._groups.values() for partitions in group.topics.values())

    def __contains__(self, group_id: str) -> bool:
        """Returns whether the group has committed offsets."""
        return group_id in self._groups

    def group_ids(self) -> list[str]:
        return list(self._groups)

    def topics(self, group_id: str) -> list[str]:
        group = self._groups.get(group_id)
        return [] if group is None else list(group.topics)

    def partitions(self, group_id: str, topic: str) -> list[int]:
        group = self._groups.get(group_id)
        return [] if group is None else list(group.topics.get(topic, ()))

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        group = self._groups.get(group_id)
        if group is None:
            return None
        packed = group.topics.get(topic, {}).get(partition)
        return None if packed is None else CommittedOffset.unpack(packed)

    def metadata_has_prefix(self, group_id: str, topic: str, partition: int, prefix: bytes) -> bool:
        """Returns whether there is a committed offset whose metadata begins with `prefix`. Unpacks nothing."""
        group = self._groups.get(group_id)
        packed = None if group is None else group.topics.get(topic, _NONE).get(partition)
        return packed is not None and packed.startswith(prefix, _NUMBERS.size)

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Yields topic, partition and committed offset. The offsets must not change meanwhile."""
        group = self._groups.get(group_id)
        if group is not None:
            for topic, partitions in group.topics.items():
                for partition, packed in partitions.items():
                    yield topic, partition, CommittedOffset.unpack(packed)

    def may_have_expired(self, group_id: str, now_ms: int, retention_ms: int) -> bool:
        """Returns False if no offset of the group can have expired. Does not visit the offsets."""
        group = self._groups.get(group_id)
        return group is not None and (
            now_ms - group.oldest_commit_ms >= retention_ms or now_ms >= group.earliest_expiry_ms
        )

    # changes

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _GroupOffsets()
        partitions = group.topics.get(topic)
        if partitions is None:
            partitions = group.topics[sys.intern(topic)] = {}  # thousands of groups use the same few names
        partitions[partition] = committed.pack()
        group.oldest_commit_ms = min(group.oldest_commit_ms, committed.committed_ms)
        if committed.expires_ms != NOT_GIVEN:
            group.earliest_expiry_ms = min(group.earliest_expiry_ms, committed.expires_ms)

    def remove(self, group_id: str, topic: str, partition: int) -> bool:
        """Removes the offset. Returns False if there was none."""
        group = self._groups.get(group_id)
        if group is None or group.topics.get(topic, {}).pop(partition, None) is None:
            return False
        if not group.topics[topic]:
            del group.topics[topic]
            if not group.topics:
                del self._groups[group_id]
        return True

    def recompute_oldest(self, group_id: str) -> None:
        """Computes the oldest commit time and the earliest expiry time again, after offsets were removed or
        replaced."""
        group = self._groups.get(group_id)
        if group is not None:
            group.oldest_commit_ms = group.earliest_expiry_ms = _NEVER
            for _, _, committed in self.of_group(group_id):
                group.oldest_commit_ms = min(group.oldest_commit_ms, committed.committed_ms)
                if committed.expires_ms != NOT_GIVEN:
                    group.earliest_expiry_ms = min(group.earliest_expiry_ms, committed.expires_ms)
