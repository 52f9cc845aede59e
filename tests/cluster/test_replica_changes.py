from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.replica_assignment import InsufficientResources, Load
from tailrace.cluster.replica_changes import Places, Rows, with_factor
from tailrace.protocol.ids import SpuId


def rows_of(rows: dict[int, tuple[int, ...]]) -> Rows:
    return {number: tuple(map(SpuId, row)) for number, row in rows.items()}


def places_on(racks: dict[int, str | None], online: set[int] | None = None) -> Places:
    there = frozenset(map(SpuId, racks if online is None else online))
    return Places({SpuId(spu): rack for spu, rack in racks.items()}, there, there)


def changed(
    rows: dict[int, tuple[int, ...]], factor: int, racks: dict[int, str | None], *, online: set[int] | None = None
) -> Rows:
    found = with_factor(rows_of(rows), factor, places_on(racks, online), Load())
    assert not isinstance(found, InsufficientResources)
    return found


NO_RACKS: dict[int, str | None] = {1: None, 2: None, 3: None}


def test_topics_of_one_spu_spread_over_three_and_all_of_them_lead() -> None:
    rows = changed(dict.fromkeys(range(6), (1,)), 3, NO_RACKS)
    assert all(sorted(row) == [1, 2, 3] for row in rows.values())
    assert Counter(row[0] for row in rows.values()) == {1: 2, 2: 2, 3: 2}


def test_many_topics_with_one_partition_each_get_different_leaders() -> None:
    load = Load().add([(SpuId(1),)] * 6)
    leaders: Counter[int] = Counter()
    for _ in range(6):
        load.replicas[SpuId(1)] -= 1
        load.leaders[SpuId(1)] -= 1
        found = with_factor(rows_of({0: (1,)}), 2, places_on(NO_RACKS), load)
        assert not isinstance(found, InsufficientResources)
        leaders[found[0][0]] += 1
    assert leaders == {1: 2, 2: 2, 3: 2}


def test_a_new_replica_goes_to_another_rack_even_if_its_spu_holds_more() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b"}
    rows = changed({0: (1,), 1: (3,), 2: (1, 3)}, 2, racks)
    assert {number: set(row) for number, row in rows.items()} == {0: {1, 3}, 1: {2, 3}}


def test_a_row_that_has_the_factor_already_stays() -> None:
    assert changed({0: (1, 2), 1: (2,)}, 2, NO_RACKS).keys() == {1}


def test_replicas_that_are_offline_or_share_a_rack_are_removed_first() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "b"}
    assert changed({0: (1, 2, 3)}, 2, racks, online={1, 3}) == {0: (1, 3)}
    assert set(changed({0: (2, 3, 1)}, 2, racks)[0]) == {1, 2}
    assert changed({0: (9, 2, 3)}, 1, racks) == {0: (2,)}


def test_leaders_stay_if_they_are_even_already() -> None:
    rows = changed({0: (3,), 1: (1,), 2: (2,)}, 2, NO_RACKS)
    assert [row[0] for row in rows.values()] == [3, 1, 2]


def test_an_spu_that_is_offline_is_not_made_a_leader() -> None:
    rows = changed({0: (1, 2), 1: (1, 2)}, 3, {1: None, 3: None}, online={1, 3})
    assert Counter(row[0] for row in rows.values()) == {1: 1, 3: 1}


def test_too_few_spus_are_said_with_their_number() -> None:
    found = with_factor(rows_of({0: (1,)}), 3, places_on({1: None, 2: None}), Load())
    assert found == InsufficientResources("a replication factor of 3 needs 3 SPUs, and 2 are available")


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[int, str | None], dict[int, tuple[int, ...]], int]:
    racks = draw(st.dictionaries(st.integers(0, 8), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=7))
    ids = sorted(racks)
    row = st.lists(st.sampled_from(ids), min_size=1, max_size=len(ids), unique=True).map(tuple)
    rows = draw(st.lists(row, min_size=1, max_size=12))
    return racks, dict(enumerate(rows)), draw(st.integers(1, len(ids)))


@given(clusters())
def test_any_rows_get_the_factor_and_keep_what_they_had(
    cluster: tuple[dict[int, str | None], dict[int, tuple[int, ...]], int],
) -> None:
    racks, rows, factor = cluster
    after = changed(rows, factor, racks)
    for number, row in after.items():
        before = set(rows[number])
        assert len(row) == len(set(row)) == factor
        assert before <= set(row) if factor >= len(before) else set(row) <= before
        if factor > len(before):
            used = {racks[spu] for spu in row}
            assert len(used) == min(len(set(racks.values())), factor - len(before) + len({racks[s] for s in before}))
    assert after.keys() == {number for number, row in rows.items() if len(row) != factor}


@pytest.mark.parametrize("partitions", [3, 7, 30])
def test_growing_leaves_each_spu_with_equally_many_replicas(partitions: int) -> None:
    rows = changed(dict.fromkeys(range(partitions), (1,)), 2, {1: None, 2: None, 3: None, 4: None})
    held = Counter(spu for row in rows.values() for spu in row)
    assert max(held[spu] for spu in (2, 3, 4)) - min(held[spu] for spu in (2, 3, 4)) <= 1
    led = Counter(row[0] for row in rows.values())
    assert max(led.values()) - min(led.values()) <= 1
