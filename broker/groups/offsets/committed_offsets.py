"""What groups have committed: an offset for each partition, with what the client noted, and when that was.

There may be millions of them, so each is kept packed, in some sixty bytes that the garbage collector never looks at.
"""

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from tailrace.protocol.codec.primitives import NO_UUID, uuid_of

NOT_SAID = -1
"""By the client: when the offset expires, or which leader epoch it had reached."""

_NEVER = 2**63 - 1
_NUMBERS = struct.Struct(">qiqq16s")


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = NOT_SAID
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int = NOT_SAID
    """Said only by clients that are older than Kafka 2.1."""
    topic_id: UUID = NO_UUID
    """A topic that was deleted and created again is another one, though it has the same name."""

    def pack(self) -> bytes:
        numbers = _NUMBERS.pack(self.offset, self.leader_epoch, self.committed_ms, self.expires_ms, self.topic_id.bytes)
        return numbers + self.metadata.encode()

    @classmethod
    def unpack(cls, packed: bytes) -> "CommittedOffset":
        offset, leader_epoch, committed_ms, expires_ms, topic_id = _NUMBERS.unpack_from(packed)
        metadata = packed[_NUMBERS.size :].decode()
        return cls(offset, leader_epoch, metadata, committed_ms, expires_ms, uuid_of(topic_id))


class _GroupOffsets:
    __slots__ = ("oldest_ms", "soonest_ms", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, bytes]] = {}
        self.oldest_ms = _NEVER
        """None was committed before."""
        self.soonest_ms = _NEVER
        """None says that it expires before."""


class CommittedOffsets:
    def __init__(self) -> None:
        self._groups: dict[str, _GroupOffsets] = {}

    # what is

    def __len__(self) -> int:
        return sum(len(partitions) for group in self._groups.values() for partitions in group.topics.values())

    def __contains__(self, group_id: str) -> bool:
        """Whether the group has any."""
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

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Topic, partition and what was committed. Nothing may be changed meanwhile."""
        group = self._groups.get(group_id)
        if group is not None:
            for topic, partitions in group.topics.items():
                for partition, packed in partitions.items():
                    yield topic, partition, CommittedOffset.unpack(packed)

    def may_have_expired(self, group_id: str, now_ms: int, retention_ms: int) -> bool:
        """False where no offset can be old enough, which is known without a look at each."""
        group = self._groups.get(group_id)
        return group is not None and (now_ms - group.oldest_ms >= retention_ms or now_ms >= group.soonest_ms)

    # what happened

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _GroupOffsets()
        partitions = group.topics.get(topic)
        if partitions is None:
            partitions = group.topics[sys.intern(topic)] = {}  # thousands of groups name the same few topics
        partitions[partition] = committed.pack()
        group.oldest_ms = min(group.oldest_ms, committed.committed_ms)
        if committed.expires_ms != NOT_SAID:
            group.soonest_ms = min(group.soonest_ms, committed.expires_ms)

    def remove(self, group_id: str, topic: str, partition: int) -> bool:
        """False when there was none."""
        group = self._groups.get(group_id)
        if group is None or group.topics.get(topic, {}).pop(partition, None) is None:
            return False
        if not group.topics[topic]:
            del group.topics[topic]
            if not group.topics:
                del self._groups[group_id]
        return True

    def recompute_oldest(self, group_id: str) -> None:
        """Finds again since when the oldest is there: those before it may have gone or come anew."""
        group = self._groups.get(group_id)
        if group is not None:
            group.oldest_ms = group.soonest_ms = _NEVER
            for _, _, committed in self.of_group(group_id):
                group.oldest_ms = min(group.oldest_ms, committed.committed_ms)
                if committed.expires_ms != NOT_SAID:
                    group.soonest_ms = min(group.soonest_ms, committed.expires_ms)
