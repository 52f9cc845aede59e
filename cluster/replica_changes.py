"""Plans another replication factor for existing partitions, with as few copies as possible.

A partition keeps the replicas that it has. New replicas go to racks that the partition does not use yet, and then to
the SPUs that hold least. Replicas that are offline are removed first, then those that share a rack, and then those on
the SPUs that hold most. The first replica of a row leads. So the rows are reordered at the end: the SPUs should lead
equally many partitions of the topic, and then of all topics.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from tailrace.protocol.ids import SpuId

from .replica_assignment import InsufficientResources, Load, Row, too_few

Rows = Mapping[int, Row]
"""The replicas of partitions, by the number of the partition, the preferred leader first."""


class Places(Struct, frozen=True):
    """The SPUs of a cluster, as far as placement is concerned."""

    racks: Mapping[SpuId, str | None]
    """The rack of each SPU; all None if racks do not matter."""
    accepting: AbstractSet[SpuId]
    """The SPUs that may get more replicas."""
    online: AbstractSet[SpuId]


def with_factor(rows: Rows, factor: int, places: Places, load: Load) -> dict[int, Row] | InsufficientResources:
    """Returns the rows of one topic that change if each partition gets `factor` replicas.

    `load` counts what the SPUs hold besides these rows. The rows are added to it, so that the next topic counts them.
    """
    assert factor >= 1
    changing = {number: row for number, row in rows.items() if len(row) != factor}
    own = Load().add(row for number, row in rows.items() if number not in changing)
    counted = _Counted(own, load, places)
    changed: dict[int, Row] = {}
    for row in changing.values():
        counted.count(row, +1)
    for number, row in sorted(changing.items()):
        counted.count(row, -1)
        longer = _with_more(row, factor, counted)
        if longer is None:
            return too_few(factor, len(places.accepting | set(row)))
        changed[number] = _with_fewer(longer, factor, counted)
        counted.count(changed[number], +1)
    _balance_leaders(changed, counted)
    load.add(rows[number] if number not in changed else changed[number] for number in rows)
    return changed


class _Counted:
    """What each SPU holds and leads: of this topic first, and then of all other topics."""

    def __init__(self, own: Load, others: Load, places: Places) -> None:
        self.own = own
        self.others = others
        self.racks = places.racks
        self.accepting = sorted(places.accepting)
        self.online = places.online

    def count(self, row: Row, step: int) -> None:
        for spu in row:
            self.own.replicas[spu] += step
        self.own.leaders[row[0]] += step

    def held(self, spu: SpuId) -> tuple[int, int]:
        return self.own.replicas[spu], self.own.replicas[spu] + self.others.replicas[spu]

    def led(self, spu: SpuId) -> tuple[int, int]:
        return self.own.leaders[spu], self.own.leaders[spu] + self.others.leaders[spu]


def _with_more(row: Row, factor: int, counted: _Counted) -> Row | None:
    """Returns the row with `factor` replicas at least; None if there are too few SPUs."""
    while len(row) < factor:
        used = {counted.racks.get(spu) for spu in row}
        candidates = [spu for spu in counted.accepting if spu not in row]
        if not candidates:
            return None

        def cost(spu: SpuId, used: AbstractSet[str | None] = used) -> tuple[int, ...]:
            return counted.racks.get(spu) in used, *counted.held(spu), *counted.led(spu), spu

        row = (*row, min(candidates, key=cost))
    return row


def _with_fewer(row: Row, factor: int, counted: _Counted) -> Row:
    """Returns the row with at most `factor` replicas. The leader stays if it is online."""
    while len(row) > factor:
        racks = [counted.racks.get(spu) for spu in row]

        def worth(place: int, row: Row = row, racks: Sequence[str | None] = racks) -> tuple[bool, bool, bool, int, int]:
            held, held_in_all = counted.held(row[place])
            return row[place] in counted.online, place == 0, racks.count(racks[place]) == 1, -held, -held_in_all

        least = min(range(len(row)), key=worth)
        row = (*row[:least], *row[least + 1 :])
    return row


def _balance_leaders(rows: dict[int, Row], counted: _Counted) -> None:
    """Hands leaderships on until no single hand-over makes them more even. The other leaders stay.

    Each hand-over makes the squares of the leaderships of the topic smaller, or leaves them and makes those of all
    topics smaller. So the loop ends.
    """
    is_changed = True
    while is_changed:
        is_changed = False
        for number, row in rows.items():
            leader = row[0]
            led, led_in_all = counted.led(leader)
            able = [spu for spu in row[1:] if spu in counted.online]
            for other in sorted(able, key=lambda spu: (*counted.led(spu), spu)):
                other_led, other_led_in_all = counted.led(other)
                if led - other_led > 1 or (led - other_led == 1 and led_in_all - other_led_in_all > 1):
                    rows[number] = (other, *(spu for spu in row if spu != other))
                    counted.own.leaders.subtract([leader])
                    counted.own.leaders.update([other])
                    is_changed = True
                    break
