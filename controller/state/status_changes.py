"""The last statuses that partitions have passed through: who looks now and then sees those, too, that lasted a moment.

They are what the KV store told of, in its order, each with the moment at which this SC heard of it. An SC that has just
begun to lead knows of none.
"""

from collections import deque
from itertools import takewhile

from msgspec import Struct

from tailrace.controller.objects.objects import Partition, PartitionResolution, PartitionStatus
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.wall_clock import WallClock

from .local_store import PartitionKey

CHANGES_MAX = 10_000
"""Of all partitions together: three or four for each that gets another leader."""


class StatusChange(Struct, frozen=True):
    key: PartitionKey
    time_us: int
    """No other change has the same, and a later one has a larger one."""
    resolution: PartitionResolution
    leader: SpuId
    epoch: Epoch
    reason: str


class StatusChanges:
    def __init__(self, wall_clock: WallClock) -> None:
        self._wall_clock = wall_clock
        self._changes: deque[StatusChange] = deque(maxlen=CHANGES_MAX)
        self.last_us = wall_clock.now_ms() * 1000
        """When something changed last, or else when this began."""

    def note(self, before: PartitionStatus, partition: Partition) -> None:
        """As it was, and as the store has it now."""
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
        """Those that came later than that, in their order."""
        later = list(takewhile(lambda change: change.time_us > time_us, reversed(self._changes)))
        return later[::-1]


def _passed_through(status: PartitionStatus) -> tuple[PartitionResolution, Epoch]:
    return status.resolution, status.epoch
