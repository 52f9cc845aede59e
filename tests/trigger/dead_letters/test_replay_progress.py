from hypothesis import given
from hypothesis import strategies as st

from tailrace.trigger.dead_letters.replay_progress import TEXT_CHARACTERS_MAX, ReplayProgress


def test_what_is_done_in_order_moves_the_offset() -> None:
    progress = ReplayProgress(5)
    progress.add(5, 6)
    progress.add(6, 8)
    assert (progress.offset, progress.metadata) == (8, "")
    assert [progress.is_done(offset) for offset in (0, 5, 7, 8)] == [True, True, True, False]


def test_gaps_are_kept_in_the_metadata_until_they_are_filled() -> None:
    progress = ReplayProgress(5)
    for first, end in ((7, 8), (9, 12), (20, 21)):
        progress.add(first, end)
    assert (progress.offset, progress.metadata) == (5, "replayed 7,9-11,20")
    again = ReplayProgress(progress.offset, progress.metadata)
    assert [offset for offset in range(25) if not again.is_done(offset)] == [5, 6, 8, *range(12, 20), 21, 22, 23, 24]
    again.add(5, 9)
    assert (again.offset, again.metadata) == (12, "replayed 20")


@given(st.integers(0, 30), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8))))
def test_it_is_the_set_of_offsets(begin: int, added: list[tuple[int, int]]) -> None:
    progress, expected = ReplayProgress(begin), set(range(begin))
    for first, size in added:
        progress.add(first, first + size)
        expected |= set(range(first, first + size))
    for each in (progress, ReplayProgress(progress.offset, progress.metadata)):
        assert {offset for offset in range(80) if each.is_done(offset)} == expected
        assert each.offset == next(offset for offset in range(100) if offset not in expected)


def test_ranges_that_do_not_fit_are_left_out() -> None:
    progress = ReplayProgress(0)
    for offset in range(1, 5_001, 2):
        progress.add(offset, offset + 1)
    assert len(progress.metadata) <= TEXT_CHARACTERS_MAX
    again = ReplayProgress(0, progress.metadata)
    assert again.is_done(501)
    assert not again.is_done(4_999)


def test_the_metadata_of_somebody_else_means_nothing() -> None:
    for metadata in ("", "hello", "replayed ", "replayed x,3", "replayed 9999999999999999999"):
        assert ReplayProgress(2, metadata).offset == 2
    assert ReplayProgress(2, "replayed x,3").is_done(3)
