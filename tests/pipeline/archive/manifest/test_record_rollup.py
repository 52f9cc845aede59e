import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.pipeline.archive.manifest.record_rollup import EMPTY, HASHED_COLUMNS, batch_rollup, rollup_of
from tailrace.pipeline.archive.manifest.rollup_sums import ROLLUP_END, add
from tailrace.pipeline.segments.arrow_rows import RecordRows, RowFilter, Source, StoredBatch
from tailrace.pipeline.segments.record_columns import decode_bodies
from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header
from tailrace.protocol.batches.records import Record, build_batch

_TIME = 1_700_000_000_123
_RECORD = Record(7, _TIME, b"k", b"v", [("a", b"1"), ("b", b"2")])


def _arrow(*records: Record) -> Any:
    batch = build_batch(list(records), base_offset=records[0].offset)
    header = read_header(batch)
    rows = RecordRows(
        Source("t", "id", 0, "/d", 0),
        [StoredBatch(header, 0, 0)],
        decode_bodies([(header, bytes(batch[HEADER_SIZE:]))]),
        RowFilter(0, 10**9),
    )
    return rows.record_batch(HASHED_COLUMNS)


def _records(count: int) -> list[Record]:
    chance = random.Random(1)
    return [
        Record(
            each,
            _TIME + each if each % 7 else -1,
            chance.choice([None, b"", b"key"]),
            chance.choice([None, b"", chance.randbytes(chance.randrange(1000))]),
            [("h", chance.choice([None, b"", b"x"]))] * chance.randrange(3),
        )
        for each in range(count)
    ]


@pytest.mark.parametrize(
    "changed",
    [
        Record(8, _TIME, b"k", b"v", _RECORD.headers),
        Record(7, _TIME + 1, b"k", b"v", _RECORD.headers),
        Record(7, -1, b"k", b"v", _RECORD.headers),
        Record(7, _TIME, b"j", b"v", _RECORD.headers),
        Record(7, _TIME, b"", b"v", _RECORD.headers),
        Record(7, _TIME, None, b"v", _RECORD.headers),
        Record(7, _TIME, b"v", b"k", _RECORD.headers),
        Record(7, _TIME, b"k", b"w", _RECORD.headers),
        Record(7, _TIME, b"k", b"", _RECORD.headers),
        Record(7, _TIME, b"k", None, _RECORD.headers),
        Record(7, _TIME, b"k", b"v"),
        Record(7, _TIME, b"k", b"v", [("a", b"1")]),
        Record(7, _TIME, b"k", b"v", [("b", b"2"), ("a", b"1")]),
        Record(7, _TIME, b"k", b"v", [("a", b"2"), ("b", b"1")]),
        Record(7, _TIME, b"k", b"v", [("a", b""), ("b", b"2")]),
        Record(7, _TIME, b"k", b"v", [("a", None), ("b", b"2")]),
        Record(7, _TIME, b"k", b"v", [("", b"1"), ("b", b"2")]),
    ],
)
def test_a_change_of_any_field_changes_the_rollup(changed: Record) -> None:
    assert batch_rollup(_arrow(changed)) != batch_rollup(_arrow(_RECORD))


def test_null_is_not_empty() -> None:
    fields = [None, b""]
    rollups = {batch_rollup(_arrow(Record(0, 0, key, value))) for key in fields for value in fields}
    assert len(rollups) == 4


def test_every_flipped_bit_of_a_value_changes_the_rollup() -> None:
    value = random.Random(2).randbytes(40)
    flipped = [bytearray(value) for _ in range(320)]
    for bit, each in enumerate(flipped):
        each[bit // 8] ^= 1 << bit % 8
    rollups = {batch_rollup(_arrow(Record(0, 0, None, bytes(each)))) for each in [bytearray(value), *flipped]}
    assert len(rollups) == 321


def test_neither_the_order_nor_the_division_into_batches_matters() -> None:
    whole = _arrow(*_records(300))
    rollup = batch_rollup(whole)
    order = list(range(300))
    random.Random(3).shuffle(order)
    assert batch_rollup(whole.take(pa.array(order))) == rollup
    for size in (1, 7, 299):
        parts = [whole.slice(start, size) for start in range(0, 300, size)]
        assert rollup_of(parts) == rollup
        assert add(*map(batch_rollup, parts)) == rollup
        assert batch_rollup(pa.Table.from_batches(parts)) == rollup


def test_records_that_change_their_values_change_the_rollup() -> None:
    one = _arrow(Record(0, _TIME, None, b"a"), Record(1, _TIME, None, b"b"))
    other = _arrow(Record(0, _TIME, None, b"b"), Record(1, _TIME, None, b"a"))
    assert batch_rollup(one) != batch_rollup(other)


def test_the_rollup_survives_parquet() -> None:
    whole = pa.Table.from_batches([_arrow(*_records(300))])
    written = pa.BufferOutputStream()
    pq.write_table(whole, written, compression="zstd", row_group_size=100)
    table = pq.read_table(pa.BufferReader(written.getvalue()))
    assert batch_rollup(table) == batch_rollup(whole)
    large = table.set_column(table.column_names.index("value"), "value", table["value"].cast(pa.large_binary()))
    assert batch_rollup(large) == batch_rollup(whole)


def test_no_records_have_the_empty_rollup() -> None:
    assert rollup_of([]) == EMPTY
    assert batch_rollup(_arrow(_RECORD).slice(0, 0)) == EMPTY
    assert batch_rollup(_arrow(_RECORD).schema.empty_table()) == EMPTY


def test_the_hash_never_changes_because_manifests_keep_it() -> None:
    assert batch_rollup(_arrow(_RECORD)) == 3340967784511364070
    assert batch_rollup(_arrow(Record(0, -1, None, None))) == 10813953757369489387
    assert add(ROLLUP_END - 1, 2) == 1
