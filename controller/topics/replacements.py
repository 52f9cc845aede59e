"""Rows without the SPUs that are to hold nothing any more: each has its place taken by another, as evenly as can be.

A replica moves only where somebody else can take it; what cannot be moved stays where it is, for it is better there
than nowhere.
"""

from collections.abc import Callable, Collection, Sequence

from tailrace.cluster.replica_assignment import Load, SpuOnRack
from tailrace.controller.objects.objects import ReplicaMap
from tailrace.protocol.ids import SpuId

Row = tuple[SpuId, ...]


def replace_unwanted(
    rows: ReplicaMap,
    numbers: Collection[int],
    is_unwanted: Callable[[int, SpuId], bool],
    accepting: Sequence[SpuOnRack],
    load: Load,
) -> ReplicaMap:
    """`numbers`: the partitions that may be moved; `is_unwanted`: in which of them, and on which SPU, a replica is not
    to stay; `load`: what the SPUs hold beside these rows."""
    load.add(rows.values())
    result = dict(rows)
    for number in sorted(numbers):
        row = result[number]
        for spu in row:
            if is_unwanted(number, spu):
                row = _with_another(row, spu, accepting, load)
        result[number] = row
    return result


def _with_another(row: Row, unwanted: SpuId, accepting: Sequence[SpuOnRack], load: Load) -> Row:
    """In the same place: who takes over from a preferred leader is preferred, too."""
    racks = {each.id: each.rack for each in accepting}
    taken = {racks.get(spu) for spu in row if spu != unwanted} - {None}
    candidates = [each for each in accepting if each.id not in row]
    if not candidates:
        return row
    leads = row[0] == unwanted

    def cost(each: SpuOnRack) -> tuple[bool, int, int, SpuId]:
        leaders = load.leaders[each.id] if leads else 0
        return each.rack in taken, load.replicas[each.id], leaders, each.id

    chosen = min(candidates, key=cost).id
    for spu, step in ((unwanted, -1), (chosen, +1)):
        load.replicas[spu] += step
        load.leaders[spu] += step if leads else 0
    return tuple(chosen if spu == unwanted else spu for spu in row)
