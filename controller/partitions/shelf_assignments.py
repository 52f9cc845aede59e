"""Counts the shelves that each SPU stores or will store, for a balanced placement of new ones.

Shelves that were decided count at once, before the store has them. Leaders report many partitions at a time: otherwise
all new shelves would go to the SPUs that had the fewest when the first was placed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tailrace.cluster.specs import Shelf
from tailrace.controller.state.local_store import PartitionKey
from tailrace.protocol.ids import SpuId


class ShelfAssignments:
    def __init__(self) -> None:
        self._shelves: dict[PartitionKey, tuple[Shelf, ...]] = {}
        self._load: Counter[SpuId] = Counter()
        self.load: Mapping[SpuId, int] = MappingProxyType(self._load)
        """How many shelves each SPU stores or is filling."""

    def put(self, key: PartitionKey, shelves: tuple[Shelf, ...]) -> None:
        """Replaces the shelves of the partition by `shelves`."""
        before = self._shelves.get(key, ())
        if shelves == before:
            return
        self._load.subtract(_keepers(before))
        self._load.update(_keepers(shelves))
        if shelves:
            self._shelves[key] = shelves
        else:
            del self._shelves[key]


def _keepers(shelves: Iterable[Shelf]) -> Iterable[SpuId]:
    return (spu for shelf in shelves for spu in (*shelf.stores, *shelf.filling))
