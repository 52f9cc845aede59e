from tailrace.storage.manifest.compaction_history import (
    Compacted,
    add_compaction,
    compacted_up_to,
    tombstones_end,
    truncate_history,
)

HOUR = 3600 * 1000


def test_times_are_rounded_up_so_that_few_are_kept() -> None:
    history: list[Compacted] = []
    for number in range(10_000):
        history, newest = add_compaction(history, number, number * 15_000, 24 * HOUR)
        assert newest.at_ms >= number * 15_000
        assert len(history) <= 18
        assert compacted_up_to(history) == number


def test_entries_whose_tombstones_are_all_droppable_are_forgotten() -> None:
    history, _ = add_compaction([], 10, 1000, 160)
    history, _ = add_compaction(history, 20, 1050, 160)
    assert [tombstones_end(history, now, 160) for now in (1159, 1160, 1209, 1210)] == [0, 10, 10, 20]
    history, _ = add_compaction(history, 30, 1300, 160)
    assert history == [Compacted(20, 1050), Compacted(30, 1300)]


def test_no_retention_of_tombstones_keeps_them_for_one_compaction() -> None:
    history, _ = add_compaction([], 10, 1000, 0)
    assert tombstones_end(history, 1000, 0) == 10


def test_truncation_lowers_the_ends() -> None:
    assert truncate_history([Compacted(10, 1), Compacted(20, 2)], 15) == [Compacted(10, 1), Compacted(15, 2)]
