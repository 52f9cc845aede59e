"""The offsets that open transactions have committed: they are pending until the marker of their transaction.

Each is packed, like a committed offset. The producers of a group, and its partitions with pending offsets, are found
without visiting those of other groups.
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

from tailrace.broker.coordination.pending_records import PendingRecords

from .committed_offsets import CommittedOffset


class OffsetKey(NamedTuple):
    """What an offset belongs to."""

    group_id: str
    topic: str
    partition: int


class PendingOffset(NamedTuple):
    """An offset that an open transaction has committed."""

    producer_id: int
    topic: str
    partition: int
    committed: CommittedOffset | None
    """What takes effect with the transaction; None if a later commit of the partition is in effect already."""


class EndedOffset(NamedTuple):
    """An offset whose transaction has ended."""

    key: OffsetKey
    committed: CommittedOffset | None
    """What takes effect now; None if nothing does."""


class PendingOffsets:
    def __init__(self) -> None:
        self._records: PendingRecords[OffsetKey, bytes] = PendingRecords()
        self._of_group: dict[str, dict[tuple[str, int], None]] = {}
        """The topics and partitions with pending offsets, by group."""

    # state

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, group_id: str) -> bool:
        """Returns whether the group has pending offsets."""
        return group_id in self._of_group

    def group_ids(self) -> list[str]:
        return list(self._of_group)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Returns whether an open transaction has committed an offset of the partition."""
        return group_id in self._of_group and OffsetKey(group_id, topic, partition) in self._records

    def partitions(self, group_id: str) -> list[tuple[str, int]]:
        """Returns the topics and partitions of the group with pending offsets."""
        return list(self._of_group.get(group_id, ()))

    def of_group(self, group_id: str) -> Iterator[PendingOffset]:
        """Yields the pending offsets of the group. They must not change meanwhile."""
        for topic, partition in self._of_group.get(group_id, ()):
            yield from self.of_partition(group_id, topic, partition)

    def of_partition(self, group_id: str, topic: str, partition: int) -> Iterator[PendingOffset]:
        """Yields the pending offsets of one partition, one for each producer."""
        for record in self._records.of_key(OffsetKey(group_id, topic, partition)):
            committed = None if record.value is None else CommittedOffset.unpack(record.value)
            yield PendingOffset(record.producer_id, topic, partition, committed)

    # events, in the order of the log

    def put(
        self, producer_id: int, group_id: str, topic: str, partition: int, committed: CommittedOffset | None
    ) -> None:
        """Notes an offset of an open transaction; `committed` is None if a later one is in effect already."""
        place = sys.intern(topic), partition
        self._of_group.setdefault(group_id, {})[place] = None
        self._records.put(producer_id, OffsetKey(group_id, *place), None if committed is None else committed.pack())

    def supersede(self, group_id: str, topic: str, partition: int) -> None:
        """Notes a commit outside of transactions. Earlier pending offsets of the partition will not take effect."""
        if group_id in self._of_group:
            self._records.supersede(OffsetKey(group_id, topic, partition))

    def discard(self, group_id: str, topic: str, partition: int) -> None:
        """Forgets the pending offsets of the partition, because they were deleted."""
        if self._records.discard(OffsetKey(group_id, topic, partition)):
            self._forget(group_id, topic, partition)

    def end(self, producer_id: int, *, is_commit: bool) -> list[EndedOffset]:
        """Ends the transaction of the producer, and returns its offsets."""
        ended = []
        for key, value in self._records.end(producer_id, is_commit=is_commit):
            if key not in self._records:
                self._forget(*key)
            ended.append(EndedOffset(key, None if value is None else CommittedOffset.unpack(value)))
        return ended

    def _forget(self, group_id: str, topic: str, partition: int) -> None:
        places = self._of_group[group_id]
        del places[topic, partition]
        if not places:
            del self._of_group[group_id]
