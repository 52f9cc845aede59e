"""Tests which batches of a response belong to aborted transactions."""

from tailrace.protocol.batches.aborted_in_fetch import AbortedInFetch
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch, marker_of


def _written(offset: int, producer_id: int, *, is_transactional: bool = True) -> bytes:
    records = [Record(offset, 0, None, b"v"), Record(offset + 1, 0, None, b"v")]
    built = build_batch(
        records, base_offset=offset, producer_id=producer_id, base_sequence=0, is_transactional=is_transactional
    )
    return bytes(built)


def _ended(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    return bytes(marker_batch(offset, 0, producer_id, 0, is_commit=is_commit, coordinator_epoch=0, now_ms=0))


def _aborted(batches: list[bytes], aborted: list[tuple[int, int]]) -> list[int]:
    log, transactions = b"".join(batches), AbortedInFetch(aborted)
    return [
        header.base_offset
        for position, header in iterate(log)
        if transactions.has(header, marker_of(header, log, position))
    ]


def test_a_transaction_is_aborted_from_its_first_offset_to_its_marker() -> None:
    log = [
        _written(0, 1),
        _written(2, 2),
        _ended(4, 1, is_commit=False),
        _written(5, 1),
        _ended(7, 2, is_commit=True),
        _written(8, 2),
        _ended(10, 2, is_commit=False),
        _ended(11, 1, is_commit=True),
    ]
    assert _aborted(log, [(1, 0), (2, 8)]) == [0, 8]
    assert _aborted(log, []) == []


def test_a_transaction_that_began_before_the_response_is_aborted_until_its_marker() -> None:
    log = [_written(20, 1), _ended(22, 1, is_commit=False), _written(23, 1)]
    assert _aborted(log, [(1, 3)]) == [20]


def test_records_outside_of_transactions_are_never_aborted() -> None:
    assert _aborted([_written(0, 1, is_transactional=False), _written(2, 1)], [(1, 0)]) == [2]
