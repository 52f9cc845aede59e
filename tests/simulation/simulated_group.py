"""A consumer group in a simulation: what its members read, what they were told, and their timeouts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from .generation_history import GenerationHistory
from .history import PartitionHistory
from .moments import Moments
from .offset_history import OffsetHistory
from .ownership_history import OwnershipHistory

ONLOOKER = "onlooker"
"""The prefix in the names of clients that fetch what others have committed."""


class Timeouts(Struct, frozen=True):
    session_seconds: float = 1.5
    rebalance_seconds: float = 3.0
    heartbeat_seconds: float = 0.3


@dataclass
class Group:
    """A group whose members all consume all of one topic."""

    group_id: str
    topic: str
    partitions: Sequence[PartitionHistory]
    timeouts: Timeouts
    moments: Moments
    is_mixed: bool = False
    """Whether the members use both protocols."""
    offsets: list[OffsetHistory] = field(init=False)
    generations: GenerationHistory = field(init=False)
    ownership: OwnershipHistory = field(init=False)

    def __post_init__(self) -> None:
        names = [f"{self.group_id}, {self.topic}-{each.partition}" for each in self.partitions]
        self.offsets = [OffsetHistory(name) for name in names]
        self.generations = GenerationHistory(self.group_id, self.offsets)
        # An empty group starts again when it is used with its other protocol, so that its epochs may fall.
        self.ownership = OwnershipHistory(self.group_id, () if self.is_mixed else self.offsets)
