"""Remembers the last status changes of partitions.

So a periodic observer also sees statuses that lasted only a moment. The changes come from the KV store, in its order,
each with the time at which this SC heard of it. An SC that has just become active knows of none.
"""

from collections import deque
from itertools import takewhile

from msgspec import Struct

from tailrace.controller.objects.objects import Partition, PartitionResolution, PartitionStatus
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.wall_clock import WallClock

from .local_store import PartitionKey

CHANGES_MAX = 10_000
"""How many changes of all partitions are kept. An election takes three or four."""


class StatusChange(Struct, frozen=True):
    """One change of a partition's status."""

    key: PartitionKey
    time_us: int
    """When this SC heard of the change. It is unique, and larger for a later change."""
    resolution: PartitionResolution
    leader: SpuId
    epoch: Epoch
    reason: str


class StatusChanges:
    def __init__(self, wall_clock: WallClock) -> None:
        self._wall_clock = wall_clock
        self._changes: deque[StatusChange] = deque(maxlen=CHANGES_MAX)
        self.last_us = wall_clock.now_ms() * 1000
        """The time of the last change, or the time at which this SC started if there was none."""

    def note(self, before: PartitionStatus, partition: Partition) -> None:
        """Records the change from the status `before` to the partition's status, if an observer should see it."""
        status = partition.status
        if _passed_through(before) == _passed_through(status):
            return
        self.last_us = max(self._wall_clock.now_ms() * 1000, self.last_us + 1)
        self._changes.append(
            StatusChange(
                (partition.topic_id, partition.number),
                self.last_us,
                status.resolution,
                status.leader,
                status.epoch,
                status.reason,
            )
        )

    def after(self, time_us: int) -> list[StatusChange]:
        """Returns the changes after that time, oldest first."""
        later = list(takewhile(lambda change: change.time_us > time_us, reversed(self._changes)))
        return later[::-1]


def _passed_through(status: PartitionStatus) -> tuple[PartitionResolution, Epoch]:
    return status.resolution, status.epoch
