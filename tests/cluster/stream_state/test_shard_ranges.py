import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.stream_state.shard_ranges import SHARDS_MAX, format_shards, parse_shards


@pytest.mark.parametrize(
    ("shards", "text"),
    [({0, 1, 2, 3}, "0-3"), ({0, 1, 5}, "0-1,5"), ({7}, "7"), (set(), ""), ({11, 9, 10}, "9-11"), ({0, 2}, "0,2")],
)
def test_neighbours_are_ranges(shards: set[int], text: str) -> None:
    assert format_shards(shards) == text
    assert parse_shards(text) == shards


@given(st.frozensets(st.integers(0, SHARDS_MAX - 1)))
def test_every_set_of_shards_can_be_read_back(shards: frozenset[int]) -> None:
    assert parse_shards(format_shards(shards)) == shards


def test_spaces_after_commas_are_accepted() -> None:
    assert parse_shards("0-1, 5") == {0, 1, 5}


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "1,,2", ",", "01", "0-99999999999", "100000", "1-3,2", "٣"])
def test_anything_else_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r'^".*" (does not name shards|names shard)'):
        parse_shards(text)
