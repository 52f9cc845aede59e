"""What becomes of a partition's shelves: the rules, and nothing else.

Its leader reports what it knows of them: up to where SPUs have a shelf on their disks, that another one is to begin,
before where all is deleted for good. What it says is true of the moment at which it says it; where that has passed, or
where it cannot be, nothing changes. So whatever is decided twice is decided once.

A shelf is in as many copies as the partition has, on SPUs that have no replica of it: what is there is to be no easier
lost than what is not. Where there are too few of these, none begins. Where one is to keep none any more, or the
partition has got more replicas, others get the shelf, and are its stores when they have all of it: until then the first
one stays named, for it may come back, and may be the last one that has something.
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
"""Of a partition's shelves, as the store has them: with all else the partition is one object there."""
_SHELF_BYTES_MAX = len('{"base":,"end":,"stores":[],"filling":[]},') + 2 * len(str(2**63 - 1))
_STORE_BYTES_MAX = len("2147483647,")


class Stores(Struct, frozen=True):
    """The SPUs, as far as they matter to shelves."""

    accepting: Callable[[], Sequence[SpuOnRack]]
    """Those that may get more."""
    is_unwanted: Callable[[SpuId], bool]
    """Whether it is to keep none any more: it has gone, is to go, or stays away."""
    load: Mapping[SpuId, int]
    """How many shelves each keeps."""


def spec_after_report(spec: PartitionSpec, said: ShelvesReported, stores: Stores) -> PartitionSpec:
    """`said`: by the leader, in the epoch that there is."""
    after = _filled(_without_deleted(spec, said.shelved_from), said.filled)
    return _with_another(after, said, stores)


def replace_stores(spec: PartitionSpec, stores: Stores) -> PartitionSpec:
    """Each shelf with as many copies as it can have, once others have filled theirs."""
    copies, placing = len(spec.copy_set), _Placing(spec, stores)
    left_bytes = SHELVES_BYTES_MAX - sum(map(_bytes_max, spec.shelves))
    shelves = []
    for shelf in spec.shelves:
        kept = _kept(shelf, copies, stores, placing)
        added_bytes = _bytes_max(kept) - _bytes_max(shelf)
        if added_bytes > max(left_bytes, 0):
            kept, added_bytes = shelf, 0
        left_bytes -= added_bytes
        shelves.append(kept)
    return replace(spec, shelves=tuple(shelves))


# what the leader reports


def _without_deleted(spec: PartitionSpec, shelved_from: int) -> PartitionSpec:
    if not spec.shelves or shelved_from <= spec.shelved_from:
        return spec
    left = tuple(shelf for shelf in spec.shelves if not _is_deleted(shelf, shelved_from))
    return replace(spec, shelved_from=shelved_from, shelves=left)


def _is_deleted(shelf: Shelf, shelved_from: int) -> bool:
    """One on which nothing is yet may begin where all before is deleted."""
    return shelf.end < shelved_from or (shelf.end == shelved_from and not _is_empty(shelf))


def _filled(spec: PartitionSpec, filled: Iterable[tuple[int, SpuId, int]]) -> PartitionSpec:
    ends: dict[int, dict[SpuId, int]] = {}
    for base, spu, end in filled:
        of_shelf = ends.setdefault(base, {})
        of_shelf[spu] = max(end, of_shelf.get(spu, end))
    shelves = []
    for shelf in spec.shelves:
        said = ends.get(shelf.base)
        shelves.append(shelf if said is None else _grown(shelf, said, is_last=shelf is spec.shelves[-1]))
    return replace(spec, shelves=tuple(shelves)) if ends else spec


def _grown(shelf: Shelf, ends: Mapping[SpuId, int], *, is_last: bool) -> Shelf:
    """It grows by what all its stores have."""
    come = tuple(spu for spu in shelf.filling if ends.get(spu, -1) >= shelf.end)
    stores = shelf.stores + come
    filling = tuple(spu for spu in shelf.filling if spu not in come)
    end = shelf.end
    if is_last and all(spu in ends for spu in stores):
        end = max(end, min(ends[spu] for spu in stores))
    return Shelf(shelf.base, end, stores, filling)


def _with_another(spec: PartitionSpec, said: ShelvesReported, stores: Stores) -> PartitionSpec:
    base = said.next_base
    if base < max(said.shelved_from, 0):  # -1, or it is said of shelves that are deleted
        return spec
    if any(filled_base == base for filled_base, _, _ in said.filled):
        return spec  # The report contradicts itself: nothing can be stored on a shelf that has not begun.
    last = spec.shelves[-1] if spec.shelves else None
    if last is not None and last.end != base:
        return spec
    if last is not None and _is_empty(last):
        return spec  # who keeps that is another matter
    copies = len(spec.copy_set)
    chosen = _Placing(spec, stores).choose(copies, ())
    shelves = (*spec.shelves, Shelf(base, base, chosen))
    if len(chosen) < copies or sum(map(_bytes_max, shelves)) > SHELVES_BYTES_MAX:
        return spec
    return replace(spec, shelves=shelves, shelved_from=spec.shelved_from if last is not None else base)


# who keeps them


def _kept(shelf: Shelf, copies: int, stores: Stores, placing: "_Placing") -> Shelf:
    if _is_empty(shelf):
        return _placed(shelf, copies, stores, placing)
    good = tuple(spu for spu in shelf.stores if not stores.is_unwanted(spu))
    if len(good) >= copies:
        return Shelf(shelf.base, shelf.end, good)
    filling = tuple(spu for spu in shelf.filling if not stores.is_unwanted(spu))
    chosen = placing.choose(copies - len(good) - len(filling), shelf.stores + filling)
    return Shelf(shelf.base, shelf.end, shelf.stores, filling + chosen)


def _placed(shelf: Shelf, copies: int, stores: Stores, placing: "_Placing") -> Shelf:
    """Nobody has any of it yet: those that cannot take it now need not be waited for."""
    able = {each.id for each in stores.accepting()}
    named = tuple(spu for spu in shelf.stores if spu in able)
    named += placing.choose(copies - len(named), named)
    return Shelf(shelf.base, shelf.end, named) if len(named) >= copies else shelf


class _Placing:
    """Of the shelves of one partition: each place that is taken counts for those that follow."""

    def __init__(self, spec: PartitionSpec, stores: Stores) -> None:
        self._replicas = spec.replicas
        self._stores = stores
        self._added: Counter[SpuId] = Counter()

    def choose(self, count: int, kept: Sequence[SpuId]) -> tuple[SpuId, ...]:
        """So many, or as many as there are, beside those that have it already: on other racks before the same, those
        that keep the fewest shelves first."""
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
