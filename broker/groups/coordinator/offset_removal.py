"""Offsets that nobody asks to be deleted, and that go all the same: they had their time, or their topic was deleted.

There may be a million of them, so this is done bit by bit, and others get their turn in between.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.offsets.committed_offsets import CommittedOffsets
from tailrace.broker.groups.offsets.offset_expiry import ExpiryRule
from tailrace.protocol.codec.primitives import NO_UUID
from tailrace.protocol.ids import TopicId

if TYPE_CHECKING:
    from .coordinator import Coordinator

LOOKED_AT_PER_TURN = 1000


class OffsetForgetting:
    def __init__(
        self, coordinator: "Coordinator", committed: CommittedOffsets, forget: Callable[[str, str, int], None]
    ) -> None:
        self._coordinator = coordinator
        self._committed = committed
        self._forget = forget
        self._next_check = math.inf
        self._chores: deque[Iterator[int]] = deque()
        """Each step of one says how much there was to look at."""
        self._is_checking = False

    # when

    @property
    def deadline(self) -> float:
        """When `on_deadline` is to be called, if nothing happens before."""
        return -math.inf if self._chores else self._next_check

    def on_loaded(self, moment: Moment) -> None:
        self._next_check = moment.now + self._check_seconds()

    def on_deadline(self, moment: Moment) -> None:
        if moment.now >= self._next_check:
            self._next_check = moment.now + self._check_seconds()
            if not self._is_checking:
                self._is_checking = True
                self._chores.append(self._check(moment.now_ms))
        looked_at = 0
        while self._chores and looked_at < LOOKED_AT_PER_TURN:
            step = next(self._chores[0], None)
            if step is None:
                self._chores.popleft()
            else:
                looked_at += step

    def on_topic_gone(self, topic_id: TopicId, name: str) -> None:
        """The topic was deleted: what was committed for it means nothing to another one of its name."""
        self._chores.append(self._clear_topic(topic_id, name))

    def _check_seconds(self) -> float:
        return self._coordinator.settings("").offsets_check_interval_ms / 1000

    # what is done

    def _check(self, now_ms: int) -> Iterator[int]:
        """Forgets what has had its time, and groups of which nothing is left."""
        for group_id in list(self._coordinator.groups):
            yield 1
            retention_ms = self._coordinator.settings(group_id).offsets_retention_ms
            if self._committed.may_have_expired(group_id, now_ms, retention_ms):
                yield from self._check_group(group_id, now_ms, retention_ms)
            group = self._coordinator.groups.get(group_id)
            if group is not None and group.is_empty and group_id not in self._committed:
                self._coordinator.delete(group_id)
        self._is_checking = False

    def _check_group(self, group_id: str, now_ms: int, retention_ms: int) -> Iterator[int]:
        for topic in self._committed.topics(group_id):
            for partitions in _cut(self._committed.partitions(group_id, topic)):
                group = self._coordinator.groups.get(group_id)
                if group is None:
                    return
                rule = ExpiryRule(group, retention_ms)  # as the group is now: others had their turn
                if not rule.keeps(topic):
                    for partition in partitions:
                        committed = self._committed.get(group_id, topic, partition)
                        if committed is not None and rule.is_expired(committed, now_ms):
                            self._forget(group_id, topic, partition)
                            self._coordinator.ready.counts.expired_offsets += 1
                yield len(partitions)
        self._committed.on_all_seen(group_id)

    def _clear_topic(self, topic_id: TopicId, name: str) -> Iterator[int]:
        for group_id in self._committed.group_ids():
            for partitions in _cut(self._committed.partitions(group_id, name)):
                for partition in partitions:
                    committed = self._committed.get(group_id, name, partition)
                    if committed is not None and committed.topic_id in (NO_UUID, topic_id):
                        self._forget(group_id, name, partition)
                yield len(partitions)
            yield 1


def _cut(partitions: list[int]) -> Iterator[list[int]]:
    rest = iter(partitions)
    while some := list(islice(rest, LOOKED_AT_PER_TURN)):
        yield some
