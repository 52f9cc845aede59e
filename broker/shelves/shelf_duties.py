"""The shelves that this SPU has to store, by its specs, and how far others may rely on its copies.

This is the storing SPU's side.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from tailrace.cluster.specs import PartitionSpec, Shelf
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.directory.layout import ShelfKey


class ShelfDuty(Struct, frozen=True):
    """One shelf that this SPU has to store, as the specs say."""

    key: ShelfKey
    spec: PartitionSpec
    shelf: Shelf
    confirmed_end: int
    """The offset before which others rely on this copy, by the specs; 0 while this SPU is still filling the shelf."""
    has_others: bool
    """Whether another SPU has all of the shelf too."""

    @property
    def start(self) -> int:
        """The first offset of the shelf that is not deleted for good."""
        return max(self.shelf.base, self.spec.shelved_from)


class ShelfDuties:
    """All shelves that this SPU has to store."""

    def __init__(self, spu: SpuId) -> None:
        self._spu = spu
        self._duties: dict[ReplicaKey, dict[int, ShelfDuty]] = {}
        """The duties of each partition, by the base offset of the shelf."""
        self.are_all_known = False
        """Whether all specs have arrived. Until then, a shelf on the disk may have a spec that is still on its way."""

    def apply(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> list[ShelfKey]:
        """Applies specs of partitions that have, or had, a shelf on this SPU. Specs of other partitions change nothing.

        Returns the shelves whose copies may have diverged from the log beyond what the specs confirm: they may hold
        records of an epoch that an unclean election has ended.
        """
        before = self._duties
        if is_full:
            self._duties = {}
        for key in removed:
            self._duties.pop(key, None)
        maybe_diverged = []
        for spec in specs:
            key = spec.topic_id, spec.partition
            known = next(iter(before.get(key, {}).values()), None)
            if known is not None and (spec.epoch, spec.version) < (known.spec.epoch, known.spec.version):
                self._duties[key] = before[key]
                continue
            self._duties.pop(key, None)
            duties = {shelf.base: self._duty(spec, shelf) for shelf in spec.shelves if self._is_named(shelf)}
            if duties:
                self._duties[key] = duties
            if spec.was_unclean and (known is None or known.spec.epoch != spec.epoch):
                maybe_diverged += [each.key for each in duties.values()]
        self.are_all_known = self.are_all_known or is_full
        return maybe_diverged

    def _is_named(self, shelf: Shelf) -> bool:
        return self._spu in shelf.stores or self._spu in shelf.filling

    def _duty(self, spec: PartitionSpec, shelf: Shelf) -> ShelfDuty:
        has_others = any(store != self._spu for store in shelf.stores)
        confirmed_end = shelf.end if self._spu in shelf.stores else 0
        return ShelfDuty(ShelfKey(spec.topic_id, spec.partition, shelf.base), spec, shelf, confirmed_end, has_others)

    def __len__(self) -> int:
        return sum(map(len, self._duties.values()))

    def __iter__(self) -> Iterator[ShelfDuty]:
        return (each for shelves in self._duties.values() for each in shelves.values())

    def __contains__(self, key: ShelfKey) -> bool:
        return self.find(key) is not None

    def find(self, key: ShelfKey) -> ShelfDuty | None:
        return self._duties.get((key.topic_id, key.partition), {}).get(key.base)

    def require(self, key: ShelfKey) -> ShelfDuty:
        """Returns the duty of a shelf. Raises KafkaError if the specs do not assign the shelf to this SPU."""
        duty = self.find(key)
        if duty is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"SPU {self._spu} has no spec that assigns to it the shelf at offset {key.base} of partition"
                f" {key.partition} of topic {key.topic_id}",
            )
        return duty
