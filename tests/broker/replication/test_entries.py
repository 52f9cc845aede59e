from msgspec.structs import replace

from tailrace.broker.replication.entries import Entry, EntryKind, compacted_end, end_of, entry_at, portions
from tailrace.protocol.ids import Epoch

ENTRY = Entry(3, 5, Epoch(1), content=7)


def test_entries_are_the_same_whatever_their_epoch() -> None:
    assert ENTRY.is_same_as(ENTRY.stamped(Epoch(2)))


def test_anything_else_makes_another_entry() -> None:
    for other in (
        replace(ENTRY, base=2),
        replace(ENTRY, end=6),
        replace(ENTRY, content=8, epoch=2),
        replace(ENTRY, kind=EntryKind.HOLE, epoch=2),
    ):
        assert not ENTRY.is_same_as(other)


def test_a_compacted_batch_has_another_content_and_keeps_its_epoch() -> None:
    assert ENTRY.is_same_as(replace(ENTRY, content=8))


def test_a_hole_has_no_content() -> None:
    assert replace(ENTRY, kind=EntryKind.HOLE).is_same_as(replace(ENTRY, kind=EntryKind.HOLE, content=8, epoch=2))


def _entries(*ends: tuple[int, int]) -> list[Entry]:
    return [replace(ENTRY, base=base, end=end) for base, end in ends]


def test_compaction_has_been_where_the_last_gap_ends() -> None:
    assert compacted_end([], 3, 3) == 0
    assert compacted_end(_entries((3, 5)), 3, 5) == 0
    assert compacted_end(_entries((3, 5)), 1, 5) == 3
    assert compacted_end(_entries((3, 5), (7, 8), (8, 9)), 1, 9) == 7


def test_missing_records_show_compaction() -> None:
    lesser = replace(ENTRY, base=5, end=8, kind=EntryKind.COMPACTED)
    assert compacted_end([ENTRY, lesser, *_entries((8, 9))], 3, 9) == 8
    assert compacted_end([ENTRY, lesser, *_entries((8, 9))], 3, 9, lambda entry: entry is not lesser) == 0


def test_an_entry_that_overlaps_another_shows_no_compaction() -> None:
    assert compacted_end(_entries((3, 5), (8, 10), (7, 9)), 3, 9) == 0
    assert compacted_end(_entries((3, 5), (3, 5), (7, 9)), 3, 9) == 0
    assert compacted_end(_entries((3, 5), (7, 9)), 3, 8) == 0
    assert compacted_end(_entries((3, 5), (7, 9)), 3, None) == 0
    assert compacted_end(_entries((2, 3), (5, 7), (7, 9)), 2, None) == 5, "that is not in doubt"


def test_an_entry_with_an_unsure_end_leaves_no_gap() -> None:
    entries = _entries((3, 4), (5, 7), (7, 9))
    assert compacted_end(entries, 3, 9) == 5
    assert compacted_end(entries, 3, 9, lambda entry: entry.base != 3) == 0


def test_entries_end_with_the_last_one() -> None:
    assert end_of([ENTRY], 0) == 5
    assert end_of([], 2) == 2


def test_an_entry_is_found_by_its_base_alone() -> None:
    entries = [ENTRY, replace(ENTRY, base=7, end=8)]
    assert [entry_at(entries, base) for base in (3, 4, 7, 8)] == [entries[0], None, entries[1], None]


def test_a_portion_is_as_large_as_it_may_be_and_never_empty() -> None:
    entries = [replace(ENTRY, base=base, end=base + 1, size=size) for base, size in enumerate((2, 1, 1, 9, 1))]
    assert [len(portion) for portion in portions(entries, 3, 9)] == [2, 1, 1, 1]
    assert [len(portion) for portion in portions(entries, 99, 2)] == [2, 2, 1]
    assert list(portions([], 3, 9)) == []
