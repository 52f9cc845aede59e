from uuid import UUID

import pytest

from tailrace.pipeline.segments.copy_choice import Extent
from tailrace.pipeline.segments.segment_reading import SegmentError
from tailrace.pipeline.segments.stream_positions import (
    check_order,
    document_of,
    latest_positions,
    limited_positions,
    positions_of,
)

A, B = (UUID(int=1), 0), (UUID(int=1), 1)


def test_positions_are_the_same_after_the_checkpoint() -> None:
    positions = {B: 5, A: 3, (UUID(int=2), 11): 0}
    document = document_of(positions)
    assert list(document) == [str(UUID(int=1)), str(UUID(int=2))]
    assert document[str(UUID(int=1))] == {"0": 3, "1": 5}
    assert positions_of(document) == positions


def test_the_latest_positions_never_go_back() -> None:
    assert latest_positions({A: 9, B: 4}, {A: Extent(0, 7)}) == {A: 9, B: 4}
    assert latest_positions({A: 9}, {A: Extent(0, 12), B: Extent(3, 5)}) == {A: 12, B: 5}


def test_a_limit_is_shared_by_lag_and_every_partition_proceeds() -> None:
    extents = {A: Extent(0, 1000), B: Extent(0, 10)}
    latest = {A: 1000, B: 10}
    assert limited_positions({A: 0, B: 0}, latest, extents, 101) == {A: 100, B: 1}
    assert limited_positions({A: 990, B: 9}, latest, extents, 101) == latest
    start = {A: 0, B: 0}
    rounds = 0
    while start != latest:
        start = limited_positions(start, latest, extents, 10)
        rounds += 1
    assert rounds < 110


def test_a_partition_that_is_new_begins_with_its_first_offset() -> None:
    assert limited_positions({}, {A: 1000}, {A: Extent(400, 1000)}, 10) == {A: 410}


def test_a_partition_that_would_go_back_is_an_error() -> None:
    check_order(5, 5, "events/0")
    with pytest.raises(SegmentError, match="events/0 ends at offset 4, and the stream has read up to offset 5"):
        check_order(5, 4, "events/0")
