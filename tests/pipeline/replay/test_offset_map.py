from tailrace.pipeline.replay.offset_map import (
    OffsetTable,
    PartState,
    PendingRanges,
    count_parts,
    decode_state,
    encode_state,
    part_name,
    without_first,
)
from tailrace.pipeline.replay.replay_position import MappedRange, ReplayPosition

RANGES = [MappedRange(10, 100, 3), MappedRange(20, None, 2), MappedRange(30, 200, 1)]


def test_parts_are_counted_by_partition() -> None:
    names = [part_name(1, 0), part_name(1, 1), part_name(12, 0), "_replay.json", f".{part_name(1, 2)}.1.tmp"]
    assert (count_parts(names, 1), count_parts(names, 12), count_parts(names, 0)) == (2, 1, 0)


def test_offsets_are_found_in_ranges() -> None:
    table = OffsetTable(RANGES)
    assert [table.target_of(each) for each in (9, 10, 12, 13, 20, 30, 31)] == [None, 100, 102, None, None, 200, None]
    assert [table.next_target_of(each) for each in (0, 11, 13, 21, 31)] == [100, 101, 200, 200, None]


def test_ranges_lose_their_first_records() -> None:
    assert without_first(RANGES, 0) == RANGES
    assert without_first(RANGES, 4) == [MappedRange(21, None, 1), MappedRange(30, 200, 1)]
    assert without_first(RANGES, 6) == []


def test_what_another_attempt_has_written_is_not_pending() -> None:
    pending = PendingRanges(5)
    pending.add([MappedRange(10, 100, 3)])
    pending.on_written(ReplayPosition(12, 0, ordinal=7))
    assert pending.ranges == [MappedRange(12, 102, 1)]
    pending.on_written(ReplayPosition(20, 0, ordinal=10))
    assert pending.ranges == []
    pending.add([MappedRange(13, 103, 2)])
    assert pending.ranges == []
    pending.add([MappedRange(15, 105, 2)])
    assert pending.ranges == [MappedRange(15, 105, 2)]


def test_a_state_is_read_as_it_was_written() -> None:
    state = PartState(ReplayPosition(1, 2, 3, 4, 2**64 - 1, 5), is_end=True)
    assert decode_state(encode_state(state)) == state
