"""Limits for turns and portions so small that the few records of a seed need many of them, and are a large lag."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from tailrace.broker.copies import bulk_copies
from tailrace.broker.replicas import replica_log
from tailrace.broker.replication.copying import CopyLimits
from tailrace.broker.replication.leader import LeaderLimits
from tailrace.broker.roles import leader_controller
from tailrace.storage.segments import restamping

from .determinism import random_of


@contextmanager
def small_turns(seed: int) -> Iterator[None]:
    """Applies small limits, which the seed chooses, within the `with` block."""
    chance = random_of(seed, "turns")
    limits = LeaderLimits(
        append_bytes_max=chance.choice((300, 2000)),
        appends_in_flight_max=chance.choice((2, 8)),
        recovered_bytes_max=chance.choice((1, 300, 1000)),
        recovered_entries_max=chance.choice((1, 2, 5)),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leader_controller, "LIMITS", limits)
        patch.setattr(replica_log, "SCANNED_PER_TURN", chance.choice((1, 2, 5)))
        patch.setattr(restamping, "STAMPED_IN_A_TURN", chance.choice((1, 2, 5)))
        yield


@contextmanager
def early_copies(seed: int) -> Iterator[None]:
    """Makes replicas that lack a few batches copy them from followers, within the `with` block."""
    chance = random_of(seed, "copies")
    limits = replace(
        leader_controller.LIMITS, append_bytes_max=chance.choice((1, 200)), appends_in_flight_max=chance.choice((1, 3))
    )
    copies = CopyLimits(lacking_bytes_min=chance.choice((1, 500)), portion_bytes_max=chance.choice((1, 300, 2000)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leader_controller, "LIMITS", limits)
        patch.setattr(bulk_copies, "LIMITS", copies)
        yield
