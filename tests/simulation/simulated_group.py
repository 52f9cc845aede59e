"""A consumer group in a simulation: what its members read, what they were told, and how patient they are."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from .generation_history import GenerationHistory
from .history import PartitionHistory
from .moments import Moments
from .offset_history import OffsetHistory
from .ownership_history import OwnershipHistory

ONLOOKER = "onlooker"
"""How the names of those begin who fetch what others committed."""


class Timeouts(Struct, frozen=True):
    session_seconds: float = 1.5
    rebalance_seconds: float = 3.0
    heartbeat_seconds: float = 0.3


@dataclass
class Group:
    """All of whose members consume all of one topic."""

    group_id: str
    topic: str
    partitions: Sequence[PartitionHistory]
    timeouts: Timeouts
    moments: Moments
    is_mixed: bool = False
    """Whether members speak both protocols."""
    offsets: list[OffsetHistory] = field(init=False)
    generations: GenerationHistory = field(init=False)
    ownership: OwnershipHistory = field(init=False)

    def __post_init__(self) -> None:
        names = [f"{self.group_id}, {self.topic}-{each.partition}" for each in self.partitions]
        self.offsets = [OffsetHistory(name) for name in names]
        self.generations = GenerationHistory(self.group_id, self.offsets)
        # A group that is empty begins anew when it is asked in its other protocol: terms say nothing then.
        self.ownership = OwnershipHistory(self.group_id, () if self.is_mixed else self.offsets)
