"""Other SPUs take the places of SPUs that should hold nothing any more."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.replica_assignment import Load, SpuOnRack
from tailrace.controller.topics.replacements import replace_unwanted
from tailrace.protocol.ids import SpuId

ONE, TWO, THREE, FOUR, FIVE = map(SpuId, (1, 2, 3, 4, 5))


def on_racks(**racks: str | None) -> list[SpuOnRack]:
    return [SpuOnRack(SpuId(int(name[1:])), rack) for name, rack in racks.items()]


def is_one(_: int, spu: SpuId) -> bool:
    return spu == ONE


def test_another_takes_the_place() -> None:
    rows = {0: (ONE, TWO), 1: (TWO, ONE), 2: (TWO, THREE)}
    assert replace_unwanted(rows, rows, is_one, on_racks(s2=None, s3=None), Load()) == {
        0: (THREE, TWO),
        1: (TWO, THREE),
        2: (TWO, THREE),
    }


def test_replicas_without_a_place_or_without_permission_to_move_stay() -> None:
    rows = {0: (ONE, TWO), 1: (ONE, TWO)}
    assert replace_unwanted(rows, rows, is_one, on_racks(s2=None), Load()) == rows
    assert replace_unwanted(rows, (1,), is_one, on_racks(s2=None, s3=None), Load()) == {0: (ONE, TWO), 1: (THREE, TWO)}


def test_another_rack_goes_before_a_smaller_load() -> None:
    rows = {0: (ONE, TWO)}
    load = Load(Counter({THREE: 5}))
    taking = on_racks(s2="a", s3="b", s4="a")
    assert replace_unwanted(rows, rows, is_one, taking, load) == {0: (THREE, TWO)}
    assert replace_unwanted(rows, rows, is_one, on_racks(s2=None, s3=None, s4=None), Load(Counter({THREE: 5}))) == {
        0: (FOUR, TWO)
    }


def test_leaders_are_spread() -> None:
    rows = dict.fromkeys(range(4), (ONE, TWO))
    moved = replace_unwanted(rows, rows, is_one, on_racks(s2=None, s3=None, s4=None), Load())
    assert Counter(row[0] for row in moved.values()) == {THREE: 2, FOUR: 2}


@given(st.dictionaries(st.integers(0, 9), st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True)))
def test_rows_keep_their_length_and_have_distinct_spus(drawn: dict[int, list[int]]) -> None:
    rows = {number: tuple(map(SpuId, row)) for number, row in drawn.items()}
    taking = on_racks(s3="a", s4="a", s5="b", s6=None)
    moved = replace_unwanted(rows, rows, lambda _, spu: spu in (ONE, TWO), taking, Load())
    assert moved.keys() == rows.keys()
    for number, row in moved.items():
        assert len(set(row)) == len(row) == len(rows[number])
        assert not {ONE, TWO} & set(row), "four SPUs are enough for three replicas"
        assert all(now == before for now, before in zip(row, rows[number], strict=True) if before not in (ONE, TWO))
