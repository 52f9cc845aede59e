"""Tests the buckets of sizes and times; compat_tests/spark/test_stats.py compares them with Spark's."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tailrace.pipeline.stats.size_buckets import (
    EMPTY,
    NULL,
    SLOTS_MAX,
    SizeCount,
    bucket_of,
    largest_of,
    size_stat,
    slot_seconds,
)

SIZES = st.integers(1, 2**31 - 1)


@given(SIZES)
def test_a_bucket_contains_its_sizes_and_is_narrow(size: int) -> None:
    largest = largest_of(bucket_of(size))
    assert size <= largest <= size + size // 16
    assert bucket_of(largest) == bucket_of(size) < bucket_of(largest + 1)


def test_null_and_empty_have_buckets_of_their_own() -> None:
    assert [bucket_of(each) for each in (None, 0, 1)] == [NULL, EMPTY, 0]
    assert [largest_of(each) for each in (NULL, EMPTY, 0)] == [0, 0, 1]


def test_small_sizes_are_exact() -> None:
    assert [largest_of(bucket_of(size)) for size in range(1, 32)] == list(range(1, 32))


@given(st.lists(SIZES, min_size=1))
def test_percentiles_are_ordered_and_close_to_the_true_ones(sizes: list[int]) -> None:
    found = size_stat(Counter(map(bucket_of, sizes)), sum(sizes), max(sizes))
    true = sorted(sizes)[(len(sizes) - 1) // 2]
    assert true <= found.p50 <= true + true // 16
    assert found.p50 <= found.p90 <= found.p99 <= found.largest == max(sizes)
    assert sum(each.count for each in found.buckets) == found.count == len(sizes)


def test_a_histogram_has_the_powers_of_two_between_its_sizes() -> None:
    counts = Counter(map(bucket_of, [None, 0, 0, 3, 9]))
    found = size_stat(counts, 12, 9)
    assert (found.count, found.nulls, found.mean) == (4, 1, 3.0)
    assert found.buckets == [
        SizeCount(0, 1, 2),
        SizeCount(1, 2, 0),
        SizeCount(2, 4, 1),
        SizeCount(4, 8, 0),
        SizeCount(8, 16, 1),
    ]
    assert size_stat({}, 0, 0).buckets == []


@given(st.integers(0, 2**50), st.integers(0, 2**50))
def test_a_time_has_a_bounded_number_of_slots(first: int, span: int) -> None:
    width = slot_seconds(first, first + span)
    slots = (first + span) // (width * 1000) - first // (width * 1000) + 1
    assert 1 <= slots <= SLOTS_MAX + 1
