"""Expectations of the records that a shard has loaded: their bound, and the first one that is not handled."""

from collections.abc import Iterable

from shard_workers import batch_of, fetched

from tailrace.protocol.batches.records import Record, read_records
from tailrace.trigger.shards.fetched_batches import FetchedBatch
from tailrace.trigger.shards.loaded_records import LoadedRecords


def _decode(batch: FetchedBatch, first: int) -> Iterable[Record]:
    return [record for record in read_records(batch.data) if record.offset >= first]


def _loaded(*batches: bytes, offset: int = 0, records_max: int = 100) -> LoadedRecords[Record]:
    return LoadedRecords(offset, fetched(*batches, offset=offset), _decode, records_max)


def _load_all(loaded: LoadedRecords[Record], end: int = 100) -> list[int]:
    offsets = []
    while (record := loaded.next(end)) is not None:
        loaded.load()
        offsets.append(record.offset)
    return offsets


def test_records_are_loaded_in_order_up_to_an_end() -> None:
    loaded = _loaded(batch_of(range(4)), batch_of([5, 6], base=4), offset=1)
    assert _load_all(loaded, 3) == [1, 2]
    assert _load_all(loaded) == [3, 5, 6]
    assert list(loaded.unhandled) == [1, 2, 3, 5, 6]


def test_the_lowest_record_is_the_first_one_that_is_not_handled() -> None:
    loaded = _loaded(batch_of(range(4)), batch_of([6], 9, base=4))
    assert loaded.lowest == 0
    _load_all(loaded, 3)
    del loaded.unhandled[1]
    assert loaded.lowest == 0
    del loaded.unhandled[0]
    assert loaded.lowest == 2
    del loaded.unhandled[2]
    assert loaded.lowest == 3, "it is decoded and not loaded"
    assert loaded.next(100) is not None
    loaded.skip()
    assert loaded.lowest == 6


def test_records_from_the_first_one_that_is_not_handled_on_are_bounded() -> None:
    loaded = _loaded(batch_of(range(9)), records_max=3)
    assert _load_all(loaded) == [0, 1, 2]
    del loaded.unhandled[1]
    assert _load_all(loaded) == []
    del loaded.unhandled[0]
    assert _load_all(loaded) == [3, 4]


def test_records_of_a_truncated_log_are_forgotten() -> None:
    loaded = _loaded(batch_of(range(6)))
    _load_all(loaded, 4)
    loaded.truncate(2)
    assert list(loaded.unhandled) == [0, 1]
    loaded.unhandled.clear()
    assert loaded.lowest == 2
