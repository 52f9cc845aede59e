"""Searches in the time index."""

from array import array

from tailrace.storage.indexes.time_index import NO_TIMESTAMP, last_before


def test_it_finds_the_last_entry_with_only_smaller_timestamps_before_it() -> None:
    times = memoryview(array("q", [NO_TIMESTAMP, 5, 5, 9]))
    assert [last_before(times, time) for time in (-1, 0, 5, 6, 9, 10)] == [-1, 0, 0, 2, 2, 3]
    assert last_before(array("q"), 5) == -1
