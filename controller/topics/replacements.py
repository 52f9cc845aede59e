"""Replaces SPUs that should hold nothing any more in the rows of a topic.

A replica that no other SPU can take stays where it is.
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
    """Returns the rows with each unwanted replica moved to one of the `accepting` SPUs.

    Only the partitions in `numbers` may change. `is_unwanted` tells whether a partition's replica on an SPU should
    move. `load` counts what the SPUs hold besides these rows.
    """
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
    """Returns the row with another SPU in the same place, so that the successor of a preferred leader is preferred."""
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
