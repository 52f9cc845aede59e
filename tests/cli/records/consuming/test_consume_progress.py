import pytest

from tailrace.cli.records.consuming.consume_progress import Consuming
from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.client.log_client import Fetched
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError

HERE, THERE = Partition("orders", 0), Partition("orders", 1)


def _batch(first: int, count: int) -> bytes:
    return bytes(build_batch([Record(first + n, 0, None, b"v") for n in range(count)], base_offset=first))


def _offsets(found: list[Consumed]) -> list[int]:
    return [each.record.offset for each in found]


def test_it_is_done_when_it_has_come_to_all_ends() -> None:
    reader = Consuming({HERE: 0, THERE: 3}, {HERE: 4, THERE: 3})
    assert reader.wanted == {HERE: 0}
    assert _offsets(reader.take(HERE, Fetched(_batch(0, 2), 9))) == [0, 1]
    assert reader.wanted == {HERE: 2}
    assert _offsets(reader.take(HERE, Fetched(_batch(2, 5), 9))) == [2, 3]
    assert reader.wanted == {}


def test_a_batch_may_begin_before_what_is_wanted() -> None:
    reader = Consuming({HERE: 3}, None)
    assert _offsets(reader.take(HERE, Fetched(_batch(0, 5), 5))) == [3, 4]
    assert reader.wanted == {HERE: 5}


def test_so_many_records_are_enough() -> None:
    reader = Consuming({HERE: 0, THERE: 0}, None, count=3)
    assert _offsets(reader.take(HERE, Fetched(_batch(0, 2), 2))) == [0, 1]
    assert _offsets(reader.take(THERE, Fetched(_batch(0, 2), 2))) == [0]
    assert reader.wanted == {}
    assert reader.take(THERE, Fetched(_batch(2, 2), 4)) == []


def test_what_lies_beyond_the_high_watermark_is_not_committed() -> None:
    found = Consuming({HERE: 0}, None).take(HERE, Fetched(_batch(0, 3), 2))
    assert [each.is_committed for each in found] == [True, True, False]


def test_an_end_that_compaction_has_removed_is_an_end() -> None:
    reader = Consuming({HERE: 7}, {HERE: 10})
    reader.take(HERE, Fetched(b"", 9))
    assert reader.wanted == {HERE: 7}, "it may still be replicated"
    reader.take(HERE, Fetched(b"", 10))
    assert reader.wanted == {}


def test_an_uncommitted_end_that_was_cut_is_an_end() -> None:
    reader = Consuming({HERE: 7}, {HERE: 10}, uncommitted=True)
    reader.take(HERE, Fetched(b"", 7))
    assert reader.wanted == {}


def test_what_lies_before_a_batch_that_cannot_be_read_is_shown_first() -> None:
    damaged = bytearray(_batch(2, 1))
    damaged[-1] ^= 1
    reader = Consuming({HERE: 0}, {HERE: 5})
    assert _offsets(reader.take(HERE, Fetched(_batch(0, 2) + bytes(damaged), 5))) == [0, 1]
    assert reader.wanted == {HERE: 2}
    with pytest.raises(KafkaError, match="the batch at offset 2 is corrupt"):
        reader.take(HERE, Fetched(bytes(damaged), 5))


@pytest.mark.parametrize(
    ("log", "wanted", "said"),
    [
        (LogEnds(0, 20), {HERE: 10}, None),
        (LogEnds(12, 20), {HERE: 12}, "orders/0 begins at offset 12"),
        (LogEnds(0, 7), {}, "orders/0 ends at offset 7"),
    ],
)
def test_what_is_outside_the_log_is_not_waited_for(
    log: LogEnds, wanted: dict[Partition, int], said: str | None
) -> None:
    reader = Consuming({HERE: 10}, {HERE: 15})
    assert reader.move_into(HERE, log) == said
    assert reader.wanted == wanted


def test_a_position_is_never_after_what_was_shown() -> None:
    reader = Consuming({HERE: 0}, {HERE: 9}, count=3)
    assert _offsets(reader.take(HERE, Fetched(_batch(0, 5), 9))) == [0, 1, 2]
    assert reader.positions == {HERE: 3}
    reader = Consuming({HERE: 0}, {HERE: 4})
    reader.take(HERE, Fetched(_batch(0, 8), 9))
    assert reader.positions == {HERE: 4}


def test_only_records_that_match_are_shown_and_counted() -> None:
    reader = Consuming({HERE: 0}, None, count=3, matches=lambda record: record.offset % 2 == 1)
    assert _offsets(reader.take(HERE, Fetched(_batch(0, 4) + _batch(4, 6), 10))) == [1, 3, 5]
    assert (reader.positions, reader.wanted) == ({HERE: 6}, {})
