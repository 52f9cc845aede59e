"""Turns and portions that are so small that the few records of a seed take many of each."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tailrace.broker import leader_controller, replica_log
from tailrace.broker.replication.leader import LeaderLimits
from tailrace.storage import restamping

from .determinism import random_of


@contextmanager
def small_turns(seed: int) -> Iterator[None]:
    """How small they are while this lasts, the seed says."""
    chance = random_of(seed, "turns")
    limits = LeaderLimits(
        append_bytes_max=chance.choice((300, 2000)),
        appends_in_flight_max=chance.choice((2, 8)),
        recovered_bytes_max=chance.choice((1, 300, 1000)),
        recovered_entries_max=chance.choice((1, 2, 5)),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leader_controller, "LIMITS", limits)
        patch.setattr(replica_log, "LOOKED_THROUGH_IN_A_TURN", chance.choice((1, 2, 5)))
        patch.setattr(restamping, "STAMPED_IN_A_TURN", chance.choice((1, 2, 5)))
        yield
