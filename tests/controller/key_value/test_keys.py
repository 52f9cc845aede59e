"""Ranges of keys, as the stores on the disk ask for them."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.controller.key_value.keys import end_of_prefix

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(TEXT.filter(bool), TEXT)
def test_the_range_of_a_prefix_holds_all_that_begin_with_it_and_nothing_else(prefix: str, other: str) -> None:
    start = prefix.encode()
    for key in (prefix, prefix + other, other):
        assert (start <= key.encode() < end_of_prefix(start)) == key.startswith(prefix)


@given(st.lists(TEXT))
def test_keys_are_ordered_as_their_bytes(keys: list[str]) -> None:
    """So a dictionary that sorts text agrees with a database that sorts bytes."""
    assert sorted(keys) == sorted(keys, key=str.encode)
