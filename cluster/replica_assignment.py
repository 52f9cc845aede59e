"""Chooses the SPUs that hold new partitions: spread over racks first, then evenly loaded.

What is promised, for any number of partitions, replicas, SPUs and racks of any sizes:

- Spread: the replicas of a partition lie in as many racks as they can, all racks or one rack each. SPUs without a rack
  count as being in one rack together.
- Balance: of the topic's replicas an SPU has at most one more than another, except where the spread forbids to hand one
  over: every partition has already all the replicas in the other's rack that it may have there, or only those in the
  one's rack that it must have. Where racks are of one size that is never so, nor where there is one rack or none.
- Leaders: an SPU leads at most one of the topic's partitions more than another, on a topic that is placed whole.
- What is left to choose goes to the SPUs that hold, or lead, the least of other topics.

Each promise is kept by construction, in three steps. How many replicas each SPU gets (`_shares`) is filled up replica
by replica, always where there are fewest and the bounds of the rack allow it. Rows with these shares (`_rows`) are laid
out along a line, SPU after SPU and rack after rack, and the line is wound around the partitions: what is no longer than
one turn meets no partition twice, what is no shorter meets each. Leaders (`_choose_leaders`) are chosen one by one, and
then handed on along chains of rows until no chain makes them more even. With even shares that ends within one of each
other: were each leadership split among its replicas, all SPUs would lead alike, and whole numbers lie next to that.
With uneven shares rows may have to change places first; that this ends as well is tested widely, not proved.
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
    id: SpuId
    rack: str | None = None


class InsufficientResources(Struct, frozen=True):
    """There are fewer SPUs than replicas of a partition."""

    reason: str


class Load(Struct, frozen=True):
    """How much each SPU holds and leads already."""

    replicas: Counter[SpuId] = field(default_factory=Counter)
    leaders: Counter[SpuId] = field(default_factory=Counter)

    def add(self, rows: Iterable[Row]) -> "Load":
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
    """The rows of new `partitions`, given by number, of a topic that has the rows `own` already.

    `others` is the load of other topics. Where all else is equal, SPUs take turns beginning with the one at `start`.
    """
    assert replication_factor >= 1
    if replication_factor > len(spus):
        return InsufficientResources(
            f"a replication factor of {replication_factor} needs {_spus(replication_factor)}, and {len(spus)} "
            f"{'is' if len(spus) == 1 else 'are'} available"
        )
    if not partitions:
        return {}
    first = start % len(spus)
    cluster = _Cluster([*spus[first:], *spus[:first]], Load().add(own), others or Load())
    shares = _shares(len(partitions), replication_factor, cluster)
    rows = _rows(len(partitions), shares, cluster)
    _mix(rows, cluster)
    leaders = _choose_leaders(rows, cluster)
    return dict(zip(partitions, _in_turn(rows, leaders, cluster), strict=True))


def fault_of_rows(rows: Mapping[int, Sequence[SpuId]], known: Collection[SpuId] | None = None) -> str | None:
    """What is wrong with rows chosen by hand, in one sentence; `known`: the SPUs that there are."""
    width = None
    for number, row in rows.items():
        if number < 0 or any(spu < 0 for spu in row):
            return f"partition {number}: ids are not negative"
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
    """The first partition that has no row, where there should be 0, 1, 2 and so on."""
    return next((number for number in range(len(rows)) if number not in rows), None)


class _Cluster:
    """SPUs by their place in the order of turns, from 0."""

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
        return len({self.rack_of[place] for place in row})


def _shares(partitions: int, replication_factor: int, cluster: _Cluster) -> list[int]:
    """How many of the new replicas each SPU gets; as even as these bounds allow:

    an SPU has at most one replica of a partition; a rack at least one where there are no more racks than replicas, and
    at most one where there are no fewer.
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
    rows: list[list[int]] = [[] for _ in range(partitions)]
    turn = 0
    for places in cluster.racks:
        for place in places:
            for _ in range(shares[place]):
                rows[turn].append(place)
                turn = turn + 1 if turn + 1 < partitions else 0
    return rows


def _mix(rows: Sequence[list[int]], cluster: _Cluster) -> None:
    """Lets SPUs of a rack change places between partitions.

    The shares stay, but an SPU has its partitions in common with many others, which take over together when it is lost.
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
    """The leader of each row."""
    # One number that says first how much of this topic an SPU leads, and then how much in all.
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
            # Nor will there be one later: those after it have less to give than those whom it reaches can take.
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
    """By place, the numbers of the rows that it is in."""
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
    """Rows to hand on, each to a new leader, so that `giver` leads one less and one whose rank is below leads one more.

    The last hand-over stands first. Empty when there is no such chain.
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
    """Where racks are uneven, no chain may lead to one who leads too little: lets it change places with another SPU, so
    that it comes into a row that `leader` leads, and can be handed that one. `takers`: each with the rows it is in."""
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
    """The rows in an order in which SPUs lead in turn, so that any run of partitions has many leaders."""
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


# Knuth's linear congruential generator: it shuffles well enough, and always alike.
_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
