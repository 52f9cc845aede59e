"""How shelves change when the leader reports, and when their stores go offline or come back."""

from bisect import bisect_left
from collections import Counter
from itertools import pairwise

import pytest
from controller_model import topic_id
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tailrace.cluster.replica_assignment import SpuOnRack
from tailrace.cluster.specs import Shelf
from tailrace.controller.key_value.interface import VALUE_BYTES_MAX
from tailrace.controller.objects.objects import Partition, PartitionSpec
from tailrace.controller.partitions.shelf_planning import (
    SHELVES_BYTES_MAX,
    Stores,
    replace_stores,
    spec_after_report,
)
from tailrace.controller.state.events import ShelvesReported
from tailrace.controller.state.object_codec import encode
from tailrace.protocol.ids import Epoch, SpuId

NO_SHELF = PartitionSpec(SpuId(1), (SpuId(1), SpuId(2)))


def stores(*ids: int, racks: str = "", unwanted: tuple[int, ...] = (), load: dict[int, int] | None = None) -> Stores:
    """Returns SPUs that accept more shelves; `racks` has a letter for each."""
    on_racks = [SpuOnRack(SpuId(spu), rack) for spu, rack in zip(ids, racks or [None] * len(ids), strict=True)]
    return Stores(
        lambda: on_racks, lambda spu: spu in unwanted, Counter({SpuId(k): v for k, v in (load or {}).items()})
    )


def shelf(base: int, end: int, *keepers: int, filling: tuple[int, ...] = ()) -> Shelf:
    return Shelf(base, end, tuple(map(SpuId, keepers)), tuple(map(SpuId, filling)))


def shelved(*shelves: Shelf, start: int = 0, replicas: tuple[int, ...] = (1, 2)) -> PartitionSpec:
    return PartitionSpec(SpuId(replicas[0]), tuple(map(SpuId, replicas)), (), start, shelves)


def said(*filled: tuple[int, int, int], start: int = 0, base: int = -1) -> ShelvesReported:
    ends = tuple((each, SpuId(spu), end) for each, spu, end in filled)
    return ShelvesReported(SpuId(1), "first", topic_id(1), 0, Epoch(3), start, ends, base)


ALL = stores(1, 2, 3, 4, 5)

# beginning shelves


def test_the_first_shelf_begins_where_the_log_does_and_is_kept_by_others() -> None:
    assert spec_after_report(NO_SHELF, said(base=20), ALL) == shelved(shelf(20, 20, 3, 4), start=20)


def test_the_next_one_begins_where_the_last_one_ends_and_nowhere_else() -> None:
    spec = shelved(shelf(0, 100, 3, 4), start=5)
    after = shelved(shelf(0, 100, 3, 4), shelf(100, 100, 3, 4), start=5)
    assert spec_after_report(spec, said(base=100), ALL) == after
    for base in (-1, 0, 99, 101):
        assert spec_after_report(spec, said(base=base), ALL) == spec


def test_a_shelf_may_begin_where_the_same_report_ends_the_last_one() -> None:
    after = spec_after_report(shelved(shelf(0, 10, 3, 4)), said((0, 3, 20), (0, 4, 20), base=20), ALL)
    assert after.shelves == (shelf(0, 20, 3, 4), shelf(20, 20, 3, 4))


def test_a_shelf_that_is_requested_twice_begins_once() -> None:
    report = said(base=20)
    once = spec_after_report(NO_SHELF, report, ALL)
    assert spec_after_report(once, report, ALL) == once


def test_a_shelf_does_not_begin_if_the_same_report_says_that_it_is_filled() -> None:
    spec, report = shelved(replicas=(1,)), said((0, 2, 1), base=0)
    assert spec_after_report(spec, report, ALL) == spec


def test_after_one_on_which_nothing_is_yet_no_other_begins() -> None:
    begun = shelved(shelf(0, 50, 3, 4), shelf(50, 50, 3, 4))
    assert spec_after_report(begun, said(base=50), stores(4, 5, 6)) == begun


def test_there_are_as_many_copies_as_of_the_partition_or_none() -> None:
    for replicas, keepers in (((1,), (2,)), ((1, 2), (3, 4))):
        spec = shelved(replicas=replicas)
        assert spec_after_report(spec, said(base=0), ALL) == shelved(shelf(0, 0, *keepers), replicas=replicas)
    for replicas in ((1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5)):
        too_few = shelved(replicas=replicas)
        assert spec_after_report(too_few, said(base=0), ALL) == too_few


def test_while_others_come_there_are_as_many_as_those_whose_copies_count() -> None:
    changing = replace(shelved(replicas=(1, 2, 3)), copy_sets=((SpuId(1),),))
    assert spec_after_report(changing, said(base=0), ALL).shelves == (shelf(0, 0, 4),)


def test_copies_are_on_other_racks_first_and_then_where_there_are_the_fewest() -> None:
    loaded = stores(3, 4, 5, 6, racks="aabb", load={3: 1, 4: 2, 5: 9, 6: 9})
    assert spec_after_report(NO_SHELF, said(base=0), loaded).shelves == (shelf(0, 0, 3, 5),)
    without_racks = stores(3, 4, 5, 6, load={3: 4, 4: 2, 5: 3, 6: 3})
    assert spec_after_report(NO_SHELF, said(base=0), without_racks).shelves == (shelf(0, 0, 4, 5),)


def test_no_more_are_begun_than_the_store_can_hold() -> None:
    ids = (2**31 - 1, 2**31 - 2)
    taking = stores(*ids, *range(5, 9))

    def full(count: int) -> PartitionSpec:
        first = 2**63 - 1 - count
        return shelved(*(shelf(base, base + 1, *ids) for base in range(first, first + count)))

    def takes_another(count: int) -> bool:
        spec = full(count)
        return spec_after_report(spec, said(base=spec.shelves[-1].end), taking) != spec

    count = bisect_left(range(1, 10_000), True, key=lambda each: not takes_another(each)) + 1
    spec = full(count)
    assert SHELVES_BYTES_MAX * 0.8 < len(encode(Partition("t", topic_id(1), 0, spec))) < VALUE_BYTES_MAX * 0.6
    replaced = replace_stores(spec, stores(*range(5, 9), unwanted=ids[:1]))
    assert len(encode(Partition("t", topic_id(1), 0, replaced))) < VALUE_BYTES_MAX * 0.6, "nor do they get many stores"


# growing and filling


def test_the_last_shelf_ends_where_the_slowest_of_its_stores_is() -> None:
    spec = shelved(shelf(0, 10, 3, 4))
    assert spec_after_report(spec, said((0, 3, 30), (0, 4, 20)), ALL).shelves == (shelf(0, 20, 3, 4),)


@pytest.mark.parametrize(
    "filled",
    [
        [(0, 3, 30)],
        [(0, 3, 30), (0, 4, 9)],
        [(0, 3, 30), (0, 5, 30)],
        [(5, 3, 30), (5, 4, 30)],
        [(0, 3, -1), (0, 4, 2)],
        [],
    ],
)
def test_a_report_that_lacks_a_store_or_names_a_smaller_end_changes_nothing(filled: list[tuple[int, int, int]]) -> None:
    spec = shelved(shelf(0, 10, 3, 4))
    assert spec_after_report(spec, said(*filled), ALL) == spec


def test_only_the_last_shelf_grows() -> None:
    spec = shelved(shelf(0, 10, 3, 4), shelf(10, 10, 4, 5))
    assert spec_after_report(spec, said((0, 3, 30), (0, 4, 30)), ALL) == spec


def test_an_spu_that_has_filled_a_shelf_becomes_its_store() -> None:
    spec = shelved(shelf(0, 10, 3, filling=(4, 5)), shelf(10, 12, 3, 4))
    after = spec_after_report(spec, said((0, 4, 9), (0, 5, 10)), ALL)
    assert after.shelves == (shelf(0, 10, 3, 5, filling=(4,)), shelf(10, 12, 3, 4))


def test_the_last_shelf_grows_while_other_spus_are_filling_it() -> None:
    spec = shelved(shelf(0, 10, 3, filling=(4,)))
    assert spec_after_report(spec, said((0, 3, 30)), ALL).shelves == (shelf(0, 30, 3, filling=(4,)),)
    assert spec_after_report(spec, said((0, 3, 30), (0, 4, 9)), ALL).shelves == (shelf(0, 30, 3, filling=(4,)),)
    assert spec_after_report(spec, said((0, 3, 30), (0, 4, 20)), ALL).shelves == (shelf(0, 20, 3, 4),)


# deletion


def test_shelves_that_end_before_what_is_left_go() -> None:
    spec = shelved(shelf(0, 10, 3), shelf(10, 20, 4), shelf(20, 20, 5))
    for start, left in ((5, 3), (10, 2), (19, 2), (20, 1), (21, 0)):
        assert spec_after_report(spec, said(start=start), ALL) == shelved(*spec.shelves[3 - left :], start=start)


def test_deleted_records_stay_deleted() -> None:
    spec = shelved(shelf(0, 10, 3), start=7)
    assert spec_after_report(spec, said(start=6), ALL) == spec
    assert spec_after_report(NO_SHELF, said(start=6), ALL) == NO_SHELF, "it is not asked where there are no shelves"


def test_after_all_of_them_another_may_begin_though_not_at_what_is_deleted() -> None:
    spec = shelved(shelf(0, 10, 3, 4))
    assert spec_after_report(spec, said(start=15, base=15), ALL) == shelved(shelf(15, 15, 3, 4), start=15)
    assert spec_after_report(spec, said(start=15, base=10), ALL) == shelved(start=15)
    assert spec_after_report(shelved(start=15), said(base=12), ALL) == shelved(shelf(12, 12, 3, 4), start=12)


# stores of shelves


def test_a_store_that_leaves_stays_until_its_replacement_has_the_shelf() -> None:
    spec, spus = shelved(shelf(0, 10, 3, 4)), stores(3, 5, 6, unwanted=(4,))
    filling = replace_stores(spec, spus)
    assert filling == shelved(shelf(0, 10, 3, 4, filling=(5,)))
    assert replace_stores(filling, spus) == filling
    filled = spec_after_report(filling, said((0, 5, 10)), spus)
    assert filled == shelved(shelf(0, 10, 3, 4, 5))
    assert replace_stores(filled, spus) == shelved(shelf(0, 10, 3, 5))


def test_a_store_that_comes_back_is_not_replaced() -> None:
    spec = shelved(shelf(0, 10, 3, 4, filling=(5,)))
    assert replace_stores(spec, stores(3, 4, 5)) == shelved(shelf(0, 10, 3, 4))


def test_a_store_without_a_replacement_stays() -> None:
    spec = shelved(shelf(0, 10, 3, 4))
    assert replace_stores(spec, stores(1, 2, 3, unwanted=(4,))) == spec


def test_the_only_one_stays_until_another_has_it() -> None:
    spec, spus = shelved(shelf(0, 10, 4), replicas=(1,)), stores(5, unwanted=(4,))
    filling = replace_stores(spec, spus)
    assert filling.shelves == (shelf(0, 10, 4, filling=(5,)),)
    assert replace_stores(spec_after_report(filling, said((0, 5, 10)), spus), spus).shelves == (shelf(0, 10, 5),)


def test_an_spu_that_leaves_while_filling_is_replaced_at_once() -> None:
    spec = shelved(shelf(0, 10, 3, 4, filling=(5,)))
    assert replace_stores(spec, stores(3, 6, unwanted=(4, 5))) == shelved(shelf(0, 10, 3, 4, filling=(6,)))


def test_missing_copies_are_filled_when_more_spus_come() -> None:
    spec = shelved(shelf(0, 10, 3), shelf(10, 10, 3))
    assert replace_stores(spec, stores(3)) == spec
    assert replace_stores(spec, stores(3, 4)) == shelved(shelf(0, 10, 3, filling=(4,)), shelf(10, 10, 3, 4))


def test_an_empty_shelf_gets_other_stores_if_its_own_accept_nothing() -> None:
    begun = shelved(shelf(0, 50, 3, 4), shelf(50, 50, 3, 4))
    assert replace_stores(begun, stores(4, 5, 6)) == shelved(shelf(0, 50, 3, 4), shelf(50, 50, 4, 5))
    assert replace_stores(begun, stores(4)) == begun, "one alone is not enough"
    assert replace_stores(begun, stores(1)) == begun, "a replica keeps no shelf of it"


def test_many_that_go_over_are_spread() -> None:
    spec = shelved(*(shelf(base, base + 1, 3, 4) for base in range(6)))
    after = replace_stores(spec, stores(5, 6, 7, load={7: 1}, unwanted=(4,)))
    assert Counter(each.filling for each in after.shelves) == {(5,): 3, (6,): 2, (7,): 1}


# properties

_ids = st.integers(1, 8).map(SpuId)
_groups = st.lists(_ids, min_size=1, max_size=3, unique=True)


@st.composite
def _specs(draw: st.DrawFn) -> PartitionSpec:
    bounds = sorted(draw(st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True)))
    if draw(st.booleans()):
        bounds.append(bounds[-1])  # The last shelf is empty.
    shelves = []
    for base, end in pairwise(bounds):
        named = draw(_groups)
        count = draw(st.integers(1, len(named)))
        shelves.append(Shelf(base, end, tuple(named[:count]), tuple(named[count:]) if base < end else ()))
    replicas = draw(_groups)
    return PartitionSpec(replicas[0], tuple(replicas), (), draw(st.integers(0, bounds[0])), tuple(shelves))


_reports = st.builds(
    lambda start, filled, base: said(*filled, start=start, base=base),
    st.integers(0, 14),
    st.lists(st.tuples(st.integers(0, 12), _ids, st.integers(-1, 14)), max_size=6),
    st.integers(-1, 14),
)
_spus = st.builds(
    lambda taking, unwanted, racks: stores(
        *(spu for spu in taking if spu not in unwanted),
        racks="".join(racks[spu - 1] for spu in taking if spu not in unwanted),
        unwanted=tuple(unwanted),
    ),
    st.lists(_ids, unique=True).map(sorted),
    st.sets(_ids),
    st.text("ab", min_size=8, max_size=8),
)


@given(_specs(), st.lists(st.tuples(_reports, _spus), max_size=6))
@example(shelved(replicas=(1,)), [(said(base=0), stores())] * 3 + [(said((0, 2, 1), base=0), stores(2, racks="a"))])
def test_whatever_is_said_nothing_is_lost_and_all_stays_in_order(
    spec: PartitionSpec, steps: list[tuple[ShelvesReported, Stores]]
) -> None:
    for report, spus in steps:
        before = spec
        reported = spec_after_report(before, report, spus)
        assert spec_after_report(reported, report, spus) == reported, "what is decided twice is decided once"
        spec = replace_stores(reported, spus)
        assert replace_stores(spec, spus) == spec
        assert (spec.replicas, spec.initial_leader, spec.copy_sets) == (
            before.replicas,
            before.initial_leader,
            before.copy_sets,
        )
        for shelf, following in pairwise(spec.shelves):
            assert shelf.base < shelf.end == following.base
        known = {shelf.base: shelf for shelf in before.shelves}
        for shelf in spec.shelves:
            assert shelf.base <= shelf.end
            assert len({*shelf.stores, *shelf.filling}) == len(shelf.stores) + len(shelf.filling)
            assert shelf.stores
            earlier = known.get(shelf.base)
            added = {*shelf.stores, *shelf.filling} - (
                set() if earlier is None else {*earlier.stores, *earlier.filling}
            )
            assert not added & set(spec.replicas)
            if earlier is None:
                assert shelf.base == shelf.end, "nobody has any of it yet"
                continue
            assert shelf.end >= earlier.end
            if earlier.base < earlier.end:
                # A report may name an SPU twice: the larger end counts.
                told = {spu: end for base, spu, end in sorted(report.filled) if base == shelf.base}
                have = {*earlier.stores, *(spu for spu in earlier.filling if told.get(spu, -1) >= earlier.end)}
                assert set(shelf.stores) <= have, "each of them has all of it"
        for shelf in before.shelves:
            is_left = any(each.base == shelf.base for each in spec.shelves)
            assert is_left or shelf.end <= spec.shelved_from or shelf.base == shelf.end
        if before.shelves:
            assert spec.shelved_from >= before.shelved_from or not reported.shelves
