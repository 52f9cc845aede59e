"""Which shelves this SPU is to keep, by its specs, and how far others count on them."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from tailrace.cluster.specs import PartitionSpec, Shelf
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.directory.layout import ShelfKey


class KeptShelf(Struct, frozen=True):
    key: ShelfKey
    spec: PartitionSpec
    shelf: Shelf
    counted_end: int
    """What is before may be read from here, as the specs say; 0: nothing."""
    has_others: bool
    """Who have all of it as well."""

    @property
    def start(self) -> int:
        """What is before has been deleted for good."""
        return max(self.shelf.base, self.spec.shelved_from)


class KeptShelves:
    def __init__(self, spu: SpuId) -> None:
        self._spu = spu
        self._kept: dict[ReplicaKey, dict[int, KeptShelf]] = {}
        """By where they begin."""
        self.are_all_known = False
        """Before, what lies here may be a shelf that was not heard of yet."""

    def apply(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> list[ShelfKey]:
        """From the specs of partitions of which this SPU keeps a shelf, or has kept one; the others change nothing.

        Returns those that may hold here, behind what the specs say, something that is no part of the log any more: of
        an epoch that an unclean election has ended.
        """
        before = self._kept
        if is_full:
            self._kept = {}
        for key in removed:
            self._kept.pop(key, None)
        doubted = []
        for spec in specs:
            key = spec.topic_id, spec.partition
            known = next(iter(before.get(key, {}).values()), None)
            if known is not None and (spec.epoch, spec.version) < (known.spec.epoch, known.spec.version):
                self._kept[key] = before[key]
                continue
            self._kept.pop(key, None)
            kept = {shelf.base: self._kept_shelf(spec, shelf) for shelf in spec.shelves if self._is_named(shelf)}
            if kept:
                self._kept[key] = kept
            if spec.was_unclean and (known is None or known.spec.epoch != spec.epoch):
                doubted += [each.key for each in kept.values()]
        self.are_all_known = self.are_all_known or is_full
        return doubted

    def _is_named(self, shelf: Shelf) -> bool:
        return self._spu in shelf.stores or self._spu in shelf.filling

    def _kept_shelf(self, spec: PartitionSpec, shelf: Shelf) -> KeptShelf:
        has_others = any(store != self._spu for store in shelf.stores)
        counted_end = shelf.end if self._spu in shelf.stores else 0
        return KeptShelf(ShelfKey(spec.topic_id, spec.partition, shelf.base), spec, shelf, counted_end, has_others)

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def __iter__(self) -> Iterator[KeptShelf]:
        return (each for shelves in self._kept.values() for each in shelves.values())

    def __contains__(self, key: ShelfKey) -> bool:
        return self.find(key) is not None

    def find(self, key: ShelfKey) -> KeptShelf | None:
        return self._kept.get((key.topic_id, key.partition), {}).get(key.base)

    def named(self, key: ShelfKey) -> KeptShelf:
        """Raises KafkaError."""
        kept = self.find(key)
        if kept is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"of partition {key.partition} of topic {key.topic_id} SPU {self._spu} has not been told of a shelf"
                f" that begins at offset {key.base}",
            )
        return kept
