"""The rules that the interface itself keeps: the largest value, and ranges of keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.controller.key_value.interface import NO_VERSION, VALUE_BYTES_MAX, Delete, Put, check_sizes, end_of_prefix

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def test_values_have_a_largest_size() -> None:
    check_sizes([Put("a", bytes(VALUE_BYTES_MAX), NO_VERSION), Delete("b", 1)])
    with pytest.raises(ValueError, match="the value of c has 1048577 bytes, more than 1048576"):
        check_sizes([Delete("b", 1), Put("c", bytes(VALUE_BYTES_MAX + 1), NO_VERSION)])


@given(TEXT.filter(bool), TEXT)
def test_the_range_of_a_prefix_holds_all_that_begin_with_it_and_nothing_else(prefix: str, other: str) -> None:
    start = prefix.encode()
    for key in (prefix, prefix + other, other):
        assert (start <= key.encode() < end_of_prefix(start)) == key.startswith(prefix)


@given(st.lists(TEXT))
def test_keys_are_ordered_as_their_bytes(keys: list[str]) -> None:
    """A dictionary that sorts text agrees with a database that sorts bytes."""
    assert sorted(keys) == sorted(keys, key=str.encode)
