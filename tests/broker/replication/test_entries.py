from msgspec.structs import replace

from tailrace.broker.replication.entries import Entry, EntryKind, compacted_end, end_of
from tailrace.protocol.ids import Epoch

ENTRY = Entry(3, 5, Epoch(1), content=7)


def test_entries_are_the_same_whatever_their_epoch() -> None:
    assert ENTRY.same_as(ENTRY.stamped(Epoch(2)))


def test_anything_else_makes_another_entry() -> None:
    for other in (
        replace(ENTRY, base=2),
        replace(ENTRY, end=6),
        replace(ENTRY, content=8, epoch=2),
        replace(ENTRY, kind=EntryKind.HOLE, epoch=2),
    ):
        assert not ENTRY.same_as(other)


def test_a_compacted_batch_has_another_content_and_keeps_its_epoch() -> None:
    assert ENTRY.same_as(replace(ENTRY, content=8))


def test_a_hole_has_no_content() -> None:
    assert replace(ENTRY, kind=EntryKind.HOLE).same_as(replace(ENTRY, kind=EntryKind.HOLE, content=8, epoch=2))


def test_compacted_end_where_the_last_one_does() -> None:
    assert compacted_end([ENTRY], 3) == 0
    assert compacted_end([ENTRY], 1) == 3
    assert compacted_end([ENTRY, replace(ENTRY, base=7, end=8), replace(ENTRY, base=8, end=9)], 1) == 7


def test_entries_end_with_the_last_one() -> None:
    assert end_of([ENTRY], 0) == 5
    assert end_of([], 2) == 2
