"""Tests the record batches that are made of rows."""

from collections.abc import Sequence

import pytest

from tailrace.pipeline.engine.row_batches import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, RowOrderError, SparkRow, batches_of
from tailrace.protocol.batches.records import Record, read_records


def _row(offset: int, value: bytes | None = b"v", number: int = 0) -> SparkRow:
    return (bytearray(b"k"), None if value is None else bytearray(value), number, offset, 1_700_000_000_000, None)


def _records(rows: Sequence[SparkRow], start: int = 0) -> list[Record]:
    return [record for batch in batches_of(rows, 0, start) for record in read_records(batch.data)]


def test_records_are_those_of_the_rows() -> None:
    headers = [("name", bytearray(b"1")), ("name", None)]
    rows = [(None, None, 0, 7, -1, headers), _row(9)]
    assert _records(rows) == [
        Record(7, -1, None, None, [("name", b"1"), ("name", None)]),
        Record(9, 1_700_000_000_000, b"k", b"v", []),
    ]


def test_rows_before_the_start_are_left_out() -> None:
    assert [each.offset for each in _records([_row(offset) for offset in range(10)], start=6)] == [6, 7, 8, 9]
    assert _records([_row(1)], start=2) == []


def test_batches_are_bounded_by_records_and_bytes() -> None:
    many = list(batches_of([_row(offset) for offset in range(BATCH_RECORDS_MAX + 1)], 0, 0))
    assert [each.end for each in many] == [BATCH_RECORDS_MAX, BATCH_RECORDS_MAX + 1]
    large = list(batches_of([_row(offset, bytes(BATCH_BYTES_MAX)) for offset in range(3)], 0, 0))
    assert [each.end for each in large] == [1, 2, 3]


@pytest.mark.parametrize("rows", [[_row(3), _row(3)], [_row(3), _row(2)], [_row(3), _row(4, number=1)]])
def test_rows_that_are_not_those_of_one_shard_in_order_are_refused(rows: Sequence[SparkRow]) -> None:
    with pytest.raises(RowOrderError, match="minPartitions"):
        _records(rows)
