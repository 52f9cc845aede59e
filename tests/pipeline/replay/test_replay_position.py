from tailrace.pipeline.replay.replay_position import MappedRange, ReplayPosition


def test_a_range_grows_only_without_gaps_on_both_sides() -> None:
    found = MappedRange(10, 100, 2)
    assert found.grows_with(12, 102)
    assert not found.grows_with(13, 102)
    assert not found.grows_with(12, 103)
    assert not found.grows_with(12, None)
    assert MappedRange(10, None, 2).grows_with(12, None)


def test_the_end_is_after_records_that_were_not_sent() -> None:
    assert ReplayPosition(5, 50, 3, 4).at_end(9, 8) == ReplayPosition(9, 50, 3, 8)
