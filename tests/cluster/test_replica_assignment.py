from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.replica_assignment import (
    InsufficientResources,
    Load,
    Row,
    SpuOnRack,
    assign,
    fault_of_rows,
    gap_in_rows,
)
from tailrace.protocol.ids import SpuId


def _spus(count: int, first: int = 0) -> list[SpuOnRack]:
    return [SpuOnRack(SpuId(first + number)) for number in range(count)]


def _on_racks(*racks: str) -> list[SpuOnRack]:
    return [SpuOnRack(SpuId(number), rack) for number, rack in enumerate(racks)]


def _rows(
    partitions: int, replication_factor: int, spus: list[SpuOnRack], start: int = 0, others: Load | None = None
) -> list[Row]:
    assigned = assign(range(partitions), replication_factor, spus, start=start, others=others)
    assert not isinstance(assigned, InsufficientResources)
    assert list(assigned) == list(range(partitions))
    return list(assigned.values())


def _spread(counts: Counter[SpuId], spus: list[SpuOnRack]) -> int:
    """Returns the largest difference between two SPUs."""
    each = [counts[spu.id] for spu in spus]
    return max(each) - min(each)


@st.composite
def _clusters(draw: st.DrawFn) -> tuple[int, int, list[SpuOnRack]]:
    replication_factor = draw(st.integers(1, 5))
    racks = draw(st.integers(0, 4))
    names = st.sampled_from([f"r{number}" for number in range(racks)]) if racks else st.none()
    of_spus = draw(st.lists(names, min_size=replication_factor, max_size=12))
    spus = [SpuOnRack(SpuId(10 * number), rack) for number, rack in enumerate(of_spus)]
    return draw(st.integers(1, 60)), replication_factor, spus


@given(_clusters(), st.integers(0, 20))
def test_any_shape_is_spread_and_balanced(cluster: tuple[int, int, list[SpuOnRack]], start: int) -> None:
    partitions, replication_factor, spus = cluster
    rows = _rows(partitions, replication_factor, spus, start)
    load = Load().add(rows)
    rack_of = {spu.id: spu.rack for spu in spus}
    racks = len(set(rack_of.values()))

    for row in rows:
        assert len(row) == len(set(row)) == replication_factor
        assert len({rack_of[spu] for spu in row}) == min(replication_factor, racks)

    rack_shares = Counter(rack_of[spu] for row in rows for spu in row)
    for one, other in permutations(rack_of, 2):
        if load.replicas[one] > load.replicas[other] + 1:
            # Only the spread may be in the way: no partition can do without the one's rack, or take the other's.
            assert rack_of[one] != rack_of[other]
            lacks = racks <= replication_factor and rack_shares[rack_of[one]] == partitions
            full = racks >= replication_factor and rack_shares[rack_of[other]] == partitions
            assert lacks or full

    assert _spread(load.leaders, spus) <= 1


@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 4), st.integers(1, 3), st.integers(0, 20))
def test_racks_of_one_size_cost_no_balance(
    partitions: int, replication_factor: int, racks: int, size: int, start: int
) -> None:
    spus = _on_racks(*(f"r{number % racks}" for number in range(racks * size))) if racks else _spus(size + 4)
    if replication_factor > len(spus):
        assert isinstance(assign(range(partitions), replication_factor, spus), InsufficientResources)
        return
    load = Load().add(_rows(partitions, replication_factor, spus, start))
    assert _spread(load.replicas, spus) <= 1
    assert _spread(load.leaders, spus) <= 1


@given(st.lists(st.integers(1, 7), min_size=1, max_size=30), st.integers(1, 3), st.integers(3, 7))
def test_topics_together_are_as_balanced_as_each(shapes: list[int], replication_factor: int, count: int) -> None:
    spus = _spus(count)
    load = Load()
    for partitions in shapes:
        load.add(_rows(partitions, replication_factor, spus, others=load))
    assert _spread(load.replicas, spus) <= 1
    assert _spread(load.leaders, spus) <= (1 if replication_factor == 1 else 2)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 3), st.integers(3, 7))
def test_partitions_added_later_balance_what_the_topic_has(
    first: int, added: int, replication_factor: int, count: int
) -> None:
    spus = _spus(count)
    rows = _rows(first, replication_factor, spus)
    more = assign(range(first, first + added), replication_factor, spus, own=rows)
    assert not isinstance(more, InsufficientResources)
    assert list(more) == list(range(first, first + added))
    assert _spread(Load().add([*rows, *more.values()]).replicas, spus) <= 1


def test_the_seeds_topic_on_a_new_cluster() -> None:
    spus = _spus(3)
    load = Load().add(_rows(6, 3, spus))
    assert load.replicas == {0: 6, 1: 6, 2: 6}
    assert load.leaders == {0: 2, 1: 2, 2: 2}


def test_the_seeds_map_is_a_good_one_by_hand() -> None:
    rows = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 1, 0], 3: [0, 1, 2], 4: [1, 2, 0], 5: [2, 1, 0]}
    by_hand = {number: tuple(map(SpuId, row)) for number, row in rows.items()}
    assert fault_of_rows(by_hand, {SpuId(0), SpuId(1), SpuId(2)}) is None
    assert gap_in_rows(by_hand) is None


def test_three_replicas_on_three_racks_are_one_in_each() -> None:
    spus = _on_racks("a", "a", "a", "b", "b", "c")
    rack_of = {spu.id: spu.rack for spu in spus}
    for row in _rows(12, 3, spus):
        assert sorted(str(rack_of[spu]) for spu in row) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("partitions", "racks"),
    [(13, "3221223222222"), (10, "2331303333"), (11, "01011000001"), (9, "111121010"), (14, "00010000011001")],
)
def test_leaders_are_even_where_racks_leave_them_few_rows(partitions: int, racks: str) -> None:
    """Tests clusters in which leaderships cannot be evened out without exchanging rows."""
    spus = _on_racks(*racks)
    for start in range(len(spus)):
        assert _spread(Load().add(_rows(partitions, 2, spus, start)).leaders, spus) <= 1


def test_neighbouring_partitions_have_different_leaders() -> None:
    rows = _rows(9, 1, _spus(3))
    assert rows == [(0,), (1,), (2,)] * 3


def test_turns_begin_where_they_are_told_to() -> None:
    assert _rows(3, 1, _spus(3), start=1) == [(1,), (2,), (0,)]
    assert _rows(3, 1, _spus(3), start=3) == _rows(3, 1, _spus(3))


def test_an_empty_spu_does_not_get_a_whole_topic() -> None:
    spus = _spus(4)
    load = Load().add([(SpuId(spu),) for spu in range(3) for _ in range(100)])
    rows = _rows(5, 1, spus, others=load)
    assert Load().add(rows).leaders == {0: 1, 1: 1, 2: 1, 3: 2}


def test_the_partitions_of_an_spu_are_shared_with_many_others() -> None:
    rows = _rows(300, 2, _spus(10))
    partners = {spu for row in rows if 0 in row for spu in row} - {0}
    assert len(partners) == 9


def test_nothing_depends_on_anything_but_the_arguments() -> None:
    assert _rows(50, 3, _spus(7), start=3) == _rows(50, 3, _spus(7), start=3)


def test_too_few_spus_are_a_value_with_a_reason() -> None:
    assert assign(range(1), 3, _spus(1)) == InsufficientResources(
        "a replication factor of 3 needs 3 SPUs, and 1 is available"
    )
    assert assign(range(1), 1, []) == InsufficientResources(
        "a replication factor of 1 needs 1 SPU, and 0 are available"
    )


def test_no_partitions_need_no_rows() -> None:
    assert assign(range(0), 1, _spus(1)) == {}


def test_ten_thousand_partitions_are_placed_at_once() -> None:
    spus = [SpuOnRack(SpuId(number), f"r{number % 7}") for number in range(100)]
    load = Load().add(_rows(10_000, 3, spus))
    assert _spread(load.leaders, spus) == 0


def test_a_topic_that_lies_on_two_of_a_hundred_spus_grows_at_once() -> None:
    """An SPU that holds no row cannot lead, so looking for rows for it must not take long."""
    first, second, *_ = spus = [SpuOnRack(SpuId(number), rack) for number, rack in enumerate("a" * 60 + "b" * 40)]
    own = [(first.id, second.id)] * 1000
    rows = assign(range(1000, 10_000), 2, spus, own=own)
    assert not isinstance(rows, InsufficientResources)
    leaders = Counter(row[0] for row in rows.values())
    assert leaders.keys() == {spu.id for spu in spus} - {first.id, second.id}
    assert max(leaders.values()) - min(leaders.values()) <= 1


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ({0: [0, 1], 1: [1, 1]}, "partition 1 names an SPU twice"),
        ({0: [0, 1], 1: [1]}, "partition 1 has 1 replica, but the first one has 2"),
        ({0: [0, 1], 1: []}, "partition 1 has no replica"),
        ({0: []}, "partition 0 has no replica"),
        ({0: [0, 7]}, "partition 0 names the SPU 7, which does not exist"),
        ({0: [0, -1]}, "partition 0: ids must not be negative"),
        ({-1: [0]}, "partition -1: ids must not be negative"),
    ],
)
def test_rows_by_hand_that_are_none(rows: dict[int, list[SpuId]], fault: str) -> None:
    assert fault_of_rows(rows, {SpuId(0), SpuId(1)}) == fault


def test_unknown_spus_are_no_fault_where_nobody_knows_them() -> None:
    assert fault_of_rows({0: [SpuId(7)]}) is None


@pytest.mark.parametrize(("rows", "gap"), [([0, 2], 1), ([1], 0), ([0, 1], None), ([], None)])
def test_gaps(rows: list[int], gap: int | None) -> None:
    assert gap_in_rows(rows) == gap
