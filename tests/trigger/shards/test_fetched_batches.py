"""Expectations of the fetched batches of a shard."""

import pytest
from shard_workers import batch_of, fetched

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.protocol.error_codes import KafkaError
from tailrace.trigger.shards.fetched_batches import FetchedBatches


def test_batches_are_found_by_offset_and_counted_across_gaps() -> None:
    batches = fetched(batch_of(range(3)), batch_of([5, 9], 12, base=4), batch_of(range(12, 14)))
    assert batches.end == 14
    assert [batch.base for batch in batches.from_offset(3)] == [4, 12]
    assert [batch.base for batch in batches.between(2, 12)] == [0, 4]
    assert batches.offsets(1, 13) == [1, 2, 5, 9, 12]
    assert [batches.after_gap(offset) for offset in (0, 3, 6, 10, 14, 20)] == [0, 5, 9, 12, 14, 20]
    assert batches.offset_after(1, 3, 14) == (9, 3)
    assert batches.offset_after(1, 4, 14) == (12, 4)
    assert batches.offset_after(1, 99, 13) == (13, 5)
    assert batches.offset_after(14, 5, 99) == (14, 0)


def test_batches_in_the_middle_of_a_response_end_it_and_control_batches_only_move_the_end() -> None:
    batches = fetched(batch_of(range(3)), batch_of([3], 6, is_control=True), batch_of(range(6, 9))[:-1])
    assert batches.end == 6
    assert [batch.base for batch in batches.from_offset(0)] == [0]


def test_records_are_decoded_on_demand() -> None:
    batches = fetched(batch_of([2, 5], 9, base=1, compression=Compression.ZSTD))
    record = batches.record(5)
    assert record is not None
    assert record.value == b"value 5"
    assert batches.record(4) is None
    assert batches.record(50) is None


def test_a_batch_that_cannot_be_decoded_counts_as_one_without_gaps() -> None:
    broken = bytearray(batch_of([0, 2], 4))
    broken[62:] = b"\xff" * len(broken[62:])
    batches = fetched(bytes(broken))
    assert batches.offsets(0, 9) == [0, 1, 2, 3]
    assert batches.record(0) is None


def test_memory_is_what_the_batches_take() -> None:
    first, second = batch_of(range(3)), batch_of(range(3, 9))
    batches = fetched(first, second)
    assert batches.memory == len(first) + len(second)
    batches.drop_before(2)
    assert batches.memory == len(first) + len(second)
    batches.drop_before(3)
    assert batches.memory == len(second)
    assert batches.find(2) is None


def test_a_truncated_log_is_fetched_from_the_batch_that_it_cut() -> None:
    batches = fetched(batch_of(range(3)), batch_of(range(3, 9)))
    assert batches.truncate(3) == 3
    assert batches.truncate(2) == 0
    assert (batches.end, batches.memory) == (0, 0)


def test_a_corrupt_header_is_an_error() -> None:
    with pytest.raises(KafkaError):
        fetched(bytes(100))


def _in_transaction(offset: int, producer_id: int) -> bytes:
    record = Record(offset, 0, None, b"v")
    return bytes(build_batch([record], base_offset=offset, producer_id=producer_id, is_transactional=True))


def test_aborted_transactions_only_move_the_end() -> None:
    marker = marker_batch(2, 0, 7, 0, is_commit=False, coordinator_epoch=0, now_ms=0)
    log = [_in_transaction(0, 7), _in_transaction(1, 8), bytes(marker), _in_transaction(3, 7), _in_transaction(4, 9)]
    batches = FetchedBatches(0, 1000)
    batches.add(b"".join(log), 0.0, 0, [(7, 0), (9, 4)])
    assert [batch.base for batch in batches.from_offset(0)] == [1, 3]
    assert (batches.end, batches.after_gap(0), batches.after_gap(4)) == (5, 1, 5)


def test_a_transaction_is_aborted_although_its_first_batches_are_known() -> None:
    batches = FetchedBatches(1, 1000)
    batches.add(_in_transaction(0, 7) + _in_transaction(1, 7) + _in_transaction(2, 8), 0.0, 0, [(7, 0)])
    assert [batch.base for batch in batches.from_offset(0)] == [2]
