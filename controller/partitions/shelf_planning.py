"""The rules for a partition's shelves: when they begin, grow and end, and who stores them.

The partition's leader reports up to which offset SPUs have a shelf on their disks, where another shelf should begin,
and before which offset all records are deleted for good. A report was true when it was sent. If it is outdated, or
contradicts itself, it changes nothing. So applying a report twice has the same result as applying it once.

A shelf has as many copies as the partition has replicas, so that shelved records are as safe as others. The copies are
on SPUs without a replica of the partition; no shelf begins while there are too few of them. If a store should not keep
the shelf any more, or the partition gets more replicas, other SPUs fill the shelf and become stores when they have all
of it. Until then the old store stays in the list, since it may come back, and may have the last copy.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.replica_assignment import SpuOnRack
from tailrace.cluster.specs import Shelf
from tailrace.controller.key_value.interface import VALUE_BYTES_MAX
from tailrace.controller.objects.objects import PartitionSpec
from tailrace.controller.state.events import ShelvesReported
from tailrace.protocol.ids import SpuId

SHELVES_BYTES_MAX = VALUE_BYTES_MAX // 2
"""The largest encoding of a partition's shelves. The KV store holds them in one object with the partition's rest."""
_SHELF_BYTES_MAX = len('{"base":,"end":,"stores":[],"filling":[]},') + 2 * len(str(2**63 - 1))
_STORE_BYTES_MAX = len("2147483647,")


class Stores(Struct, frozen=True):
    """The SPUs as possible stores of shelves."""

    accepting: Callable[[], Sequence[SpuOnRack]]
    """Returns the SPUs that may get more shelves."""
    is_unwanted: Callable[[SpuId], bool]
    """Tells whether an SPU should not keep its shelves: it was deleted, leaves, or stays offline."""
    load: Mapping[SpuId, int]
    """How many shelves each SPU stores or is filling."""


def spec_after_report(spec: PartitionSpec, report: ShelvesReported, stores: Stores) -> PartitionSpec:
    """Returns the spec after a report of the current leader in its current epoch."""
    after = _with_filled(_without_deleted(spec, report.shelved_from), report.filled)
    return _with_next_shelf(after, report, stores)


def replace_stores(spec: PartitionSpec, stores: Stores) -> PartitionSpec:
    """Returns the spec with SPUs added that fill missing copies of shelves, and without stores that are not needed."""
    copies, placing = len(spec.copy_set), _Placing(spec, stores)
    left_bytes = SHELVES_BYTES_MAX - sum(map(_bytes_max, spec.shelves))
    shelves = []
    for shelf in spec.shelves:
        kept = _with_needed_stores(shelf, copies, stores, placing)
        added_bytes = _bytes_max(kept) - _bytes_max(shelf)
        if added_bytes > max(left_bytes, 0):
            kept, added_bytes = shelf, 0
        left_bytes -= added_bytes
        shelves.append(kept)
    return replace(spec, shelves=tuple(shelves))


# reports of the leader


def _without_deleted(spec: PartitionSpec, shelved_from: int) -> PartitionSpec:
    if not spec.shelves or shelved_from <= spec.shelved_from:
        return spec
    left = tuple(shelf for shelf in spec.shelves if not _is_deleted(shelf, shelved_from))
    return replace(spec, shelved_from=shelved_from, shelves=left)


def _is_deleted(shelf: Shelf, shelved_from: int) -> bool:
    """Tells whether all records of a shelf are deleted. An empty shelf may begin where everything before is deleted."""
    return shelf.end < shelved_from or (shelf.end == shelved_from and not _is_empty(shelf))


def _with_filled(spec: PartitionSpec, filled: Iterable[tuple[int, SpuId, int]]) -> PartitionSpec:
    ends: dict[int, dict[SpuId, int]] = {}
    for base, spu, end in filled:
        of_shelf = ends.setdefault(base, {})
        of_shelf[spu] = max(end, of_shelf.get(spu, end))
    shelves = []
    for shelf in spec.shelves:
        its_ends = ends.get(shelf.base)
        shelves.append(shelf if its_ends is None else _grown(shelf, its_ends, is_last=shelf is spec.shelves[-1]))
    return replace(spec, shelves=tuple(shelves)) if ends else spec


def _grown(shelf: Shelf, ends: Mapping[SpuId, int], *, is_last: bool) -> Shelf:
    """Returns the shelf with the SPUs that have filled it as stores; the last shelf grows to what all stores have."""
    completed = tuple(spu for spu in shelf.filling if ends.get(spu, -1) >= shelf.end)
    stores = shelf.stores + completed
    filling = tuple(spu for spu in shelf.filling if spu not in completed)
    end = shelf.end
    if is_last and all(spu in ends for spu in stores):
        end = max(end, min(ends[spu] for spu in stores))
    return Shelf(shelf.base, end, stores, filling)


def _with_next_shelf(spec: PartitionSpec, report: ShelvesReported, stores: Stores) -> PartitionSpec:
    base = report.next_base
    if base < max(report.shelved_from, 0):  # No shelf should begin (-1), or its records are deleted already.
        return spec
    if any(filled_base == base for filled_base, _, _ in report.filled):
        return spec  # The report contradicts itself: nothing can be stored on a shelf that has not begun.
    last = spec.shelves[-1] if spec.shelves else None
    if last is not None and last.end != base:
        return spec
    if last is not None and _is_empty(last):
        return spec  # An empty shelf that needs other stores gets them in `replace_stores`.
    copies = len(spec.copy_set)
    chosen = _Placing(spec, stores).choose(copies, ())
    shelves = (*spec.shelves, Shelf(base, base, chosen))
    if len(chosen) < copies or sum(map(_bytes_max, shelves)) > SHELVES_BYTES_MAX:
        return spec
    return replace(spec, shelves=shelves, shelved_from=spec.shelved_from if last is not None else base)


# stores of shelves


def _with_needed_stores(shelf: Shelf, copies: int, stores: Stores, placing: "_Placing") -> Shelf:
    if _is_empty(shelf):
        return _with_accepting_stores(shelf, copies, stores, placing)
    good = tuple(spu for spu in shelf.stores if not stores.is_unwanted(spu))
    if len(good) >= copies:
        return Shelf(shelf.base, shelf.end, good)
    filling = tuple(spu for spu in shelf.filling if not stores.is_unwanted(spu))
    chosen = placing.choose(copies - len(good) - len(filling), shelf.stores + filling)
    return Shelf(shelf.base, shelf.end, shelf.stores, filling + chosen)


def _with_accepting_stores(shelf: Shelf, copies: int, stores: Stores, placing: "_Placing") -> Shelf:
    """Returns an empty shelf with stores that accept shelves now. Nothing is lost when its stores change."""
    able = {each.id for each in stores.accepting()}
    named = tuple(spu for spu in shelf.stores if spu in able)
    named += placing.choose(copies - len(named), named)
    return Shelf(shelf.base, shelf.end, named) if len(named) >= copies else shelf


class _Placing:
    """Chooses stores for the shelves of one partition; each choice counts for the next ones."""

    def __init__(self, spec: PartitionSpec, stores: Stores) -> None:
        self._replicas = spec.replicas
        self._stores = stores
        self._added: Counter[SpuId] = Counter()

    def choose(self, count: int, kept: Sequence[SpuId]) -> tuple[SpuId, ...]:
        """Chooses up to `count` SPUs besides those in `kept`.

        SPUs on racks without a copy come first, and among them those with the fewest shelves.
        """
        chosen: list[SpuId] = []
        accepting = self._stores.accepting() if count > 0 else ()
        racks = {each.id: each.rack for each in accepting}
        while len(chosen) < count:
            named: Collection[SpuId] = (*kept, *chosen)
            taken = {racks.get(spu) for spu in named} - {None}
            candidates = [each for each in accepting if each.id not in named and each.id not in self._replicas]
            if not candidates:
                break
            chosen.append(min(candidates, key=lambda each: (each.rack in taken, self._load(each.id), each.id)).id)
        self._added.update(chosen)
        return tuple(chosen)

    def _load(self, spu: SpuId) -> int:
        return self._stores.load.get(spu, 0) + self._added[spu]


def _is_empty(shelf: Shelf) -> bool:
    return shelf.base == shelf.end


def _bytes_max(shelf: Shelf) -> int:
    return _SHELF_BYTES_MAX + _STORE_BYTES_MAX * (len(shelf.stores) + len(shelf.filling))
