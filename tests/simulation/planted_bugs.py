"""Bugs that somebody might write, to be planted in servers that are otherwise real: each must be found by some seed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tailrace.broker.replicas import Replica
from tailrace.storage import open_segment, producer_snapshots
from tailrace.storage.log import Log
from tailrace.storage.producer_state import ProducerStates

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class PlantedBug:
    plant: Plant
    policy: str = "live"
    replicas: int = 3
    first_seed: int = 0
    """Where what it takes is rare, seeds are looked through from here on."""

    @property
    def name(self) -> str:
        return self.plant.__name__


# A replica by itself


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    take = Replica._take

    def forgetful(self: Replica, *arguments: Any) -> None:
        take(self, *arguments)
        self.syncs_before_acknowledging = False
        self._commits_at_append = self._commits_alone

    patch.setattr(Replica, "_take", forgetful)


def takes_repeated_batches_for_new_ones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "check", lambda self, header: None)


def forgets_producers_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producer_snapshots.ProducerSnapshots, "load", lambda self, *arguments: ProducerStates())


def says_synced_of_what_is_not(patch: pytest.MonkeyPatch) -> None:
    async def sync(self: open_segment.OpenSegment) -> None:
        pass

    patch.setattr(open_segment.OpenSegment, "sync", sync)


def forgets_to_sync_the_directory(patch: pytest.MonkeyPatch) -> None:
    async def sync_directories(self: Log) -> None:
        pass

    patch.setattr(Log, "_sync_directories", sync_directories)


PLANTED_BUGS = (
    PlantedBug(acknowledges_before_the_sync, replicas=1),
    PlantedBug(takes_repeated_batches_for_new_ones, replicas=1),
    PlantedBug(forgets_producers_at_a_restart, replicas=1),
    PlantedBug(says_synced_of_what_is_not, replicas=1),
    PlantedBug(forgets_to_sync_the_directory, replicas=1),
)
