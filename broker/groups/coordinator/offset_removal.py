"""Removes committed offsets that have expired, and those of deleted topics.

There may be a million of them. The work is therefore done in small steps, and other tasks run in between.
"""

import math
from collections import deque
from collections.abc import Iterator
from itertools import islice

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.offsets.offset_expiry import ExpiryRule
from tailrace.protocol.codec.primitives import NO_UUID
from tailrace.protocol.ids import TopicId

from .group_table import GroupTable
from .offset_table import OffsetTable

CHECKED_PER_TURN = 1000
"""How many groups and offsets are checked before other tasks run."""


class OffsetRemoval:
    def __init__(self, table: GroupTable, offsets: OffsetTable) -> None:
        self._table = table
        self._offsets = offsets
        self._committed = offsets.committed
        self._pending = offsets.pending
        self._next_check = math.inf
        self._work: deque[Iterator[int]] = deque()
        """Work that is not finished. Each step yields how many groups or offsets it has checked."""
        self._is_checking = False

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`."""
        return -math.inf if self._work else self._next_check

    def on_loaded(self, moment: Moment) -> None:
        self._next_check = moment.now + self._check_seconds()

    def on_deadline(self, moment: Moment) -> None:
        if moment.now >= self._next_check:
            self._next_check = moment.now + self._check_seconds()
            if not self._is_checking:
                self._is_checking = True
                self._work.append(self._check(moment.now_ms))
        checked = 0
        while self._work and checked < CHECKED_PER_TURN:
            step = next(self._work[0], None)
            if step is None:
                self._work.popleft()
            else:
                checked += step

    def on_topic_deleted(self, topic_id: TopicId, name: str) -> None:
        """Removes the offsets of a deleted topic. They mean nothing to a new topic that has its name."""
        self._work.append(self._remove_topic(topic_id, name))

    def _check_seconds(self) -> float:
        return self._table.settings("").offsets_check_interval_ms / 1000

    # the work, in steps

    def _check(self, now_ms: int) -> Iterator[int]:
        """Removes expired offsets, and groups that have neither offsets nor members.

        A group stays while a client is about to join with a member id that it has been given.
        """
        for group_id in list(self._table.groups):
            yield 1
            retention_ms = self._table.settings(group_id).offsets_retention_ms
            if self._committed.may_have_expired(group_id, now_ms, retention_ms):
                yield from self._check_group(group_id, now_ms, retention_ms)
            group = self._table.groups.get(group_id)
            if group is not None and group.is_empty and not group.awaits_members and group_id not in self._offsets:
                self._table.delete(group)
        self._is_checking = False

    def _check_group(self, group_id: str, now_ms: int, retention_ms: int) -> Iterator[int]:
        for topic in self._committed.topics(group_id):
            for partitions in _chunks(self._committed.partitions(group_id, topic)):
                group = self._table.groups.get(group_id)
                if group is None:
                    return
                rule = ExpiryRule(group, retention_ms)  # made anew, because the group may have changed meanwhile
                if not rule.keeps(topic):
                    for partition in partitions:
                        committed = self._committed.get(group_id, topic, partition)
                        if (
                            committed is not None
                            and rule.is_expired(committed, now_ms)
                            and not self._pending.has(group_id, topic, partition)
                        ):
                            self._offsets.remove(group_id, topic, partition)
                            self._table.output.counts.expired_offsets += 1
                yield len(partitions)
        self._committed.recompute_oldest(group_id)

    def _remove_topic(self, topic_id: TopicId, name: str) -> Iterator[int]:
        for group_id in self._committed.group_ids():
            for partitions in _chunks(self._committed.partitions(group_id, name)):
                for partition in partitions:
                    self._remove_if_all_of(topic_id, group_id, name, partition)
                yield len(partitions)
            yield 1
        for group_id in self._pending.group_ids():
            pending = [partition for topic, partition in self._pending.partitions(group_id) if topic == name]
            for partitions in _chunks(pending):
                for partition in partitions:
                    self._remove_if_all_of(topic_id, group_id, name, partition)
                yield len(partitions)
            yield 1

    def _remove_if_all_of(self, topic_id: TopicId, group_id: str, name: str, partition: int) -> None:
        """Removes the offsets of the partition unless one of them belongs to a new topic of this name.

        A tombstone deletes them all. What is left of the deleted topic is never fetched.
        """
        found = [self._committed.get(group_id, name, partition)]
        found += [each.committed for each in self._pending.of_partition(group_id, name, partition)]
        if all(each is None or each.topic_id in (NO_UUID, topic_id) for each in found):
            self._offsets.remove(group_id, name, partition)


def _chunks(partitions: list[int]) -> Iterator[list[int]]:
    rest = iter(partitions)
    while chunk := list(islice(rest, CHECKED_PER_TURN)):
        yield chunk
