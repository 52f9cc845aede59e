"""Chooses the SPUs that hold new partitions, spread over racks first and then evenly loaded.

The assignment guarantees the following, for any number of partitions and replicas, and for racks of any sizes:

- Spread: the replicas of a partition are in as many racks as possible, that is, in all racks or each in a rack of its
  own. SPUs without a rack count as one rack together.
- Balance: an SPU has at most one replica of the topic more than another SPU, unless the spread forbids to move one.
  That is the case if every partition already has as many replicas in the rack of the smaller SPU as it may have there,
  or only as many in the rack of the larger SPU as it must have. It never happens if all racks have the same size, or if
  there is only one rack.
- Leaders: if the whole topic is placed at once, an SPU leads at most one partition of it more than another SPU.
- Among equal choices, the SPUs that hold or lead least of other topics come first.

The algorithm has three steps:

1. `_shares` decides how many replicas each SPU gets. It adds replica by replica, always to the SPU with the fewest for
   which the bounds of its rack allow one more.
2. `_rows` lays out the shares along a line, SPU after SPU and rack after rack, and winds the line around the
   partitions. A piece of at most one turn meets no partition twice, and a piece of at least one turn meets all of them.
3. `_choose_leaders` chooses leaders one by one, and then hands leaderships on along chains of rows until no chain makes
   them more even. If the shares are even, the result differs by at most one: if each leadership could be split among
   the replicas, all SPUs would lead equally much, and a result in whole numbers is next to that. If the shares are
   uneven, rows may have to be exchanged first. That this reaches the same result is widely tested, but not proved.
"""

import heapq
from bisect import insort
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field

from tailrace.protocol.ids import SpuId

Row = tuple[SpuId, ...]
"""The SPUs that hold one partition, the preferred leader first."""


class SpuOnRack(Struct, frozen=True):
    """An SPU that may get replicas."""

    id: SpuId
    rack: str | None = None


class InsufficientResources(Struct, frozen=True):
    """There are fewer SPUs than replicas of a partition."""

    reason: str


class Load(Struct, frozen=True):
    """How many replicas each SPU holds and how many partitions it leads already."""

    replicas: Counter[SpuId] = field(default_factory=Counter)
    leaders: Counter[SpuId] = field(default_factory=Counter)

    def add(self, rows: Iterable[Row]) -> "Load":
        """Adds the replicas in some rows, and returns this load."""
        for row in rows:
            self.replicas.update(row)
            self.leaders[row[0]] += 1
        return self


def assign(
    partitions: Sequence[int],
    replication_factor: int,
    spus: Sequence[SpuOnRack],
    *,
    own: Iterable[Row] = (),
    others: Load | None = None,
    start: int = 0,
) -> dict[int, Row] | InsufficientResources:
    """Returns the rows of new `partitions`, given by number, of a topic that already has the rows `own`.

    `others` is the load of other topics. Among equal choices, SPUs take turns beginning with the one at `start`.
    """
    assert replication_factor >= 1
    if replication_factor > len(spus):
        return too_few(replication_factor, len(spus))
    if not partitions:
        return {}
    first = start % len(spus)
    cluster = _Cluster([*spus[first:], *spus[:first]], Load().add(own), others or Load())
    shares = _shares(len(partitions), replication_factor, cluster)
    rows = _rows(len(partitions), shares, cluster)
    _mix(rows, cluster)
    leaders = _choose_leaders(rows, cluster)
    return dict(zip(partitions, _in_turn(rows, leaders, cluster), strict=True))


def too_few(replication_factor: int, available: int) -> InsufficientResources:
    """Says how many SPUs a replication factor needs, and how many there are."""
    return InsufficientResources(
        f"a replication factor of {replication_factor} needs {_spus(replication_factor)}, and {available} "
        f"{'is' if available == 1 else 'are'} available"
    )


def fault_of_rows(rows: Mapping[int, Sequence[SpuId]], known: Collection[SpuId] | None = None) -> str | None:
    """Returns in one sentence what is wrong with rows that were chosen by hand; `known` are the existing SPUs."""
    width = None
    for number, row in rows.items():
        if number < 0 or any(spu < 0 for spu in row):
            return f"partition {number}: ids must not be negative"
        if not row:
            return f"partition {number} has no replica"
        if len(set(row)) != len(row):
            return f"partition {number} names an SPU twice"
        if len(row) != (width := width or len(row)):
            return f"partition {number} has {_replicas(len(row))}, but the first one has {width}"
        unknown = [spu for spu in row if known is not None and spu not in known]
        if unknown:
            return f"partition {number} names the SPU {unknown[0]}, which does not exist"
    return None


def gap_in_rows(rows: Collection[int]) -> int | None:
    """Returns the first partition without a row, if the rows are not 0, 1, 2 and so on; None if they are."""
    return next((number for number in range(len(rows)) if number not in rows), None)


class _Cluster:
    """The SPUs, numbered from 0 by their place in the order of turns."""

    def __init__(self, spus: Sequence[SpuOnRack], own: Load, others: Load) -> None:
        racks: dict[str | None, list[int]] = {}
        for place, spu in enumerate(spus):
            racks.setdefault(spu.rack, []).append(place)
        self.ids = [spu.id for spu in spus]
        self.racks = list(racks.values())
        self.rack_of = {place: rack for rack, places in enumerate(self.racks) for place in places}
        self.own_replicas = [own.replicas[spu.id] for spu in spus]
        self.own_leaders = [own.leaders[spu.id] for spu in spus]
        self.other_replicas = [others.replicas[spu.id] for spu in spus]
        self.other_leaders = [others.leaders[spu.id] for spu in spus]

    def racks_in(self, row: Sequence[int]) -> int:
        """Returns the number of racks in a row."""
        return len({self.rack_of[place] for place in row})


def _shares(partitions: int, replication_factor: int, cluster: _Cluster) -> list[int]:
    """Returns how many of the new replicas each SPU gets, as evenly as the following bounds allow.

    An SPU has at most one replica of a partition. A rack has at least one if there are at most as many racks as
    replicas, and at most one if there are at least as many racks as replicas.
    """
    racks = len(cluster.racks)
    shares = [0] * len(cluster.ids)
    rack_shares = [0] * racks

    def preference(place: int) -> tuple[int, int, int, int]:
        of_topic = cluster.own_replicas[place] + shares[place]
        return of_topic, cluster.other_replicas[place], cluster.other_leaders[place], place

    def fill(places: Iterable[int], count: int, rack_share_max: int) -> None:
        heap = [preference(place) for place in places if shares[place] < partitions]
        heapq.heapify(heap)
        while count:
            place = heap[0][-1]
            rack = cluster.rack_of[place]
            if rack_shares[rack] == rack_share_max:
                heapq.heappop(heap)
                continue
            shares[place] += 1
            rack_shares[rack] += 1
            count -= 1
            if shares[place] < partitions:
                heapq.heapreplace(heap, preference(place))
            else:
                heapq.heappop(heap)

    if racks <= replication_factor:
        for places in cluster.racks:
            fill(places, partitions, partitions)
        fill(range(len(shares)), partitions * (replication_factor - racks), partitions * replication_factor)
    else:
        fill(range(len(shares)), partitions * replication_factor, partitions)
    return shares


def _rows(partitions: int, shares: Sequence[int], cluster: _Cluster) -> list[list[int]]:
    """Distributes the shares over the partitions, one after the other in turn."""
    rows: list[list[int]] = [[] for _ in range(partitions)]
    turn = 0
    for places in cluster.racks:
        for place in places:
            for _ in range(shares[place]):
                rows[turn].append(place)
                turn = turn + 1 if turn + 1 < partitions else 0
    return rows


def _mix(rows: Sequence[list[int]], cluster: _Cluster) -> None:
    """Exchanges SPUs of the same rack between partitions; the shares stay the same.

    Afterwards an SPU shares its partitions with many other SPUs, which take over its work together if it fails.
    """
    cells: list[list[tuple[list[int], int]]] = [[] for _ in cluster.racks]
    for row in rows:
        for column, place in enumerate(row):
            cells[cluster.rack_of[place]].append((row, column))
    state = len(rows)
    for of_rack in cells:
        for row, column in of_rack:
            state = (state * _MULTIPLIER + _INCREMENT) % 2**64
            other_row, other_column = of_rack[(state >> 32) % len(of_rack)]
            place, other = row[column], other_row[other_column]
            if other not in row and place not in other_row:
                row[column], other_row[other_column] = other, place


def _choose_leaders(rows: Sequence[list[int]], cluster: _Cluster) -> list[int]:
    """Chooses the leader of each row."""
    # The rank of an SPU counts first how much of this topic it leads, and then how much of other topics.
    step = sum(cluster.other_leaders) + sum(cluster.own_leaders) + len(rows) + 1
    rank = [own * step + others for own, others in zip(cluster.own_leaders, cluster.other_leaders, strict=True)]
    leaders = []
    led: list[set[int]] = [set() for _ in rank]
    for number, row in enumerate(rows):
        leader = min(row, key=rank.__getitem__)
        leaders.append(leader)
        led[leader].add(number)
        rank[leader] += step
    held = _held(rows, len(rank))
    waiting = [(-each, place) for place, each in enumerate(rank)]
    heapq.heapify(waiting)
    while waiting:
        negative_rank, place = heapq.heappop(waiting)
        if rank[place] != -negative_rank:
            continue
        chain = _chain(place, rank[place] - step, rows, held, led, rank, cluster)
        if not chain:
            # There will be no chain later, either: the SPUs after it have a smaller rank.
            continue
        for number, successor in chain:
            led[leaders[number]].discard(number)
            led[successor].add(number)
            leaders[number] = successor
        taker = chain[0][1]
        rank[place] -= step
        rank[taker] += step
        heapq.heappush(waiting, (-rank[place], place))
        heapq.heappush(waiting, (-rank[taker], taker))
    return leaders


def _held(rows: Sequence[list[int]], places: int) -> list[list[int]]:
    """Returns the numbers of the rows that contain each SPU."""
    held: list[list[int]] = [[] for _ in range(places)]
    for number, row in enumerate(rows):
        for place in row:
            held[place].append(number)
    return held


def _chain(
    giver: int,
    rank_below: int,
    rows: Sequence[list[int]],
    held: Sequence[list[int]],
    led: Sequence[set[int]],
    rank: Sequence[int],
    cluster: _Cluster,
) -> list[tuple[int, int]]:
    """Finds a chain of rows to hand on, so that `giver` leads one less and an SPU with a smaller rank leads one more.

    Returns pairs of a row and its new leader, the last hand-over first; empty if there is no such chain.
    """
    reached_by: dict[int, tuple[int, int]] = {giver: (-1, giver)}
    queue = deque([giver])
    while queue:
        leader = queue.popleft()
        for number in led[leader]:
            for place in rows[number]:
                if place not in reached_by:
                    reached_by[place] = (number, leader)
                    queue.append(place)
                    if rank[place] < rank_below:
                        return _links(place, giver, reached_by)
    takers = [(taker, held[taker]) for taker, each in enumerate(rank) if each < rank_below and held[taker]]
    for leader in reached_by if takers else ():
        last = _swap(leader, takers, rows, held, led, cluster)
        if last is not None:
            return [last, *_links(leader, giver, reached_by)]
    return []


def _links(place: int, giver: int, reached_by: Mapping[int, tuple[int, int]]) -> list[tuple[int, int]]:
    links = []
    while place != giver:
        number, previous = reached_by[place]
        links.append((number, place))
        place = previous
    return links


def _swap(
    leader: int,
    takers: Sequence[tuple[int, list[int]]],
    rows: Sequence[list[int]],
    held: Sequence[list[int]],
    led: Sequence[set[int]],
    cluster: _Cluster,
) -> tuple[int, int] | None:
    """Exchanges an SPU that leads too little with another one, so that it is in a row that `leader` leads.

    This is necessary if racks are uneven and no chain leads to that SPU. `takers` are the SPUs that lead too little,
    each with the rows that contain it. Returns the row and its new leader; None if no exchange is possible.
    """
    for number in led[leader]:
        row = rows[number]
        for taker, others in takers:
            for column, place in enumerate(row):
                for other in others:
                    if other in led[taker] or place in rows[other]:
                        continue
                    other_column = rows[other].index(taker)
                    swapped = [*row[:column], taker, *row[column + 1 :]]
                    other_swapped = [*rows[other][:other_column], place, *rows[other][other_column + 1 :]]
                    if cluster.racks_in(swapped) == cluster.racks_in(row) == cluster.racks_in(other_swapped):
                        row[:], rows[other][:] = swapped, other_swapped
                        for given, taken, who in ((number, other, place), (other, number, taker)):
                            held[who].remove(given)
                            insort(held[who], taken)
                        return number, taker
    return None


def _in_turn(rows: Sequence[list[int]], leaders: Sequence[int], cluster: _Cluster) -> list[Row]:
    """Orders the rows so that SPUs lead in turn, and any range of partitions has many leaders."""
    led: list[list[list[int]]] = [[] for _ in cluster.ids]
    for row, leader in zip(rows, leaders, strict=True):
        led[leader].append(row)
    rounds = max(map(len, led))
    ordered = []
    for turn in range(rounds):
        for leader, its_rows in enumerate(led):
            if turn < len(its_rows):
                followers = [place for place in its_rows[turn] if place != leader]
                shift = turn % max(len(followers), 1)
                ordered.append(tuple(cluster.ids[each] for each in (leader, *followers[shift:], *followers[:shift])))
    return ordered


def _spus(count: int) -> str:
    return "1 SPU" if count == 1 else f"{count} SPUs"


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"


# Knuth's linear congruential generator: it shuffles well enough, and always in the same way.
_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
