"""Searches in the offset index."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from tailrace.storage.indexes.offset_index import (
    RELATIVE_OFFSET_MAX,
    entry,
    last_at_or_before,
    last_up_to_position,
    position_of,
    relative_offset_of,
)

NUMBERS = st.integers(0, 2**32 - 1)


@given(NUMBERS, NUMBERS)
def test_an_entry_holds_both_numbers(relative_offset: int, position: int) -> None:
    packed = entry(relative_offset, position)
    assert (relative_offset_of(packed), position_of(packed)) == (relative_offset, position)
    assert array("Q", [packed])[0] == packed


@given(st.sets(st.integers(0, 50)), st.integers(0, 60))
def test_searches_agree_with_a_scan(chosen: set[int], wanted: int) -> None:
    offsets = sorted(chosen)
    entries = memoryview(array("Q", [entry(offset, 7 * offset) for offset in offsets]))
    assert last_at_or_before(entries, wanted) == sum(offset <= wanted for offset in offsets) - 1
    assert last_up_to_position(entries, 7 * wanted) == sum(offset <= wanted for offset in offsets) - 1
    assert last_up_to_position(entries, 7 * wanted - 1) == sum(offset < wanted for offset in offsets) - 1


def test_the_largest_offset_and_position() -> None:
    entries = [entry(1, 5), entry(RELATIVE_OFFSET_MAX, 2**32 - 1)]
    assert last_at_or_before(entries, RELATIVE_OFFSET_MAX) == 1
    assert last_at_or_before(entries, RELATIVE_OFFSET_MAX - 1) == 0
    assert last_up_to_position(entries, 2**32 - 1) == 1
