"""Who keeps which shelves: those that the store has, and those that were decided and are being written.

Leaders report of many partitions at a time. Without the shelves under way all of them would be given to the SPUs that
had the fewest when the first was placed.
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
        """How many shelves each SPU keeps, or is to get."""

    def put(self, key: PartitionKey, shelves: tuple[Shelf, ...]) -> None:
        """From now on the partition has these, and no others."""
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
