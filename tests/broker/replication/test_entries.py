from dataclasses import replace

from tailrace.broker.replication.entries import Entry, EntryKind, end_of
from tailrace.protocol.ids import Epoch

ENTRY = Entry(3, 5, Epoch(1), content=7)


def test_entries_are_the_same_whatever_their_epoch() -> None:
    assert ENTRY.same_as(ENTRY.stamped(Epoch(2)))


def test_anything_else_makes_another_entry() -> None:
    for other in (
        replace(ENTRY, base=2),
        replace(ENTRY, end=6),
        replace(ENTRY, content=8),
        replace(ENTRY, kind=EntryKind.HOLE),
    ):
        assert not ENTRY.same_as(other)


def test_entries_end_with_the_last_one() -> None:
    assert end_of([ENTRY], 0) == 5
    assert end_of([], 2) == 2
