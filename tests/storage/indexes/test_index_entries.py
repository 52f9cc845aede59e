"""Which batches get an index entry."""

from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.indexes.offset_index import entry


def test_an_entry_comes_after_every_interval_and_never_for_the_first_batch() -> None:
    entries = IndexEntries(100)
    for number, position in enumerate([0, 60, 99, 100, 150, 201, 299, 301]):
        entries.on_batch(number, position, 10 + number)
    assert list(entries.offsets) == [entry(3, 100), entry(5, 201), entry(7, 301)]
    assert list(entries.times) == [13, 15, 17]
    assert entries.last_position == 301
    assert len(entries) == 3


def test_it_continues_where_an_earlier_process_ended() -> None:
    entries = IndexEntries(100, last_position=500)
    entries.on_batch(1, 599, 0)
    entries.on_batch(2, 600, 0)
    assert list(entries.offsets) == [entry(2, 600)]


def test_without_an_interval_every_batch_but_the_first_has_one() -> None:
    entries = IndexEntries(0)
    for number in range(3):
        entries.on_batch(number, number * 61, 0)
    assert len(entries) == 2
