from datetime import UTC, datetime

import pyarrow as pa

from tailrace.pipeline.segments.arrow_rows import RecordRows, RowFilter, Source, StoredBatch, batch_rows
from tailrace.pipeline.segments.record_columns import decode_bodies
from tailrace.pipeline.segments.segment_columns import BATCH_COLUMNS, RECORD_COLUMNS
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header
from tailrace.protocol.batches.records import Record, build_batch

_SOURCE = Source("events", "an-id", 3, "/data", 100)
_TIME = 1_700_000_000_123


def _rows(*batches: bytearray, start: int = 0, end: int = 10**9, as_of_ms: int | None = None) -> RecordRows:
    headers = [read_header(batch) for batch in batches]
    bodies = [(header, bytes(batch[HEADER_SIZE:])) for header, batch in zip(headers, batches, strict=True)]
    stored = [StoredBatch(header, 0, 0) for header in headers]
    return RecordRows(_SOURCE, stored, decode_bodies(bodies), RowFilter(start, end, as_of_ms))


def _table(rows: RecordRows, *columns: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = rows.record_batch(columns or tuple(RECORD_COLUMNS)).to_pylist()
    return found


def test_a_record_has_all_columns() -> None:
    records = [
        Record(100, _TIME, b"k", b"v", [("a", b"1"), ("b", None)]),
        Record(101, _TIME + 1, None, None),
        Record(102, -1, b"", b""),
    ]
    batch = build_batch(
        records, base_offset=100, leader_epoch=4, producer_id=7, producer_epoch=2, base_sequence=2**31 - 2
    )
    first, second, third = _table(_rows(batch))
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": "events",
        "partition": 3,
        "offset": 100,
        "timestamp": datetime.fromtimestamp(_TIME // 1000, UTC).replace(microsecond=123_000),
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        "epoch": 4,
        "entryType": "event",
        "producerId": 7,
        "producerEpoch": 2,
        "sequence": 2**31 - 2,
        "batchCrc": read_header(batch).crc,
    }
    assert (second["key"], second["value"], second["headers"], second["offset"]) == (None, None, None, 101)
    assert (third["key"], third["value"], third["timestamp"], third["sequence"]) == (b"", b"", None, 0)


def test_append_time_is_the_time_of_all_records() -> None:
    batch = build_batch([Record(0, 5, None, b""), Record(1, 9, None, b"")], append_time=_TIME)
    assert {row["timestampType"] for row in _table(_rows(batch))} == {1}
    assert len({row["timestamp"] for row in _table(_rows(batch))}) == 1


def test_only_records_in_the_range_and_up_to_a_time_are_rows() -> None:
    first = build_batch([Record(i, _TIME + i, b"%d" % i, None) for i in range(5)])
    second = build_batch([Record(i, _TIME + i, b"%d" % i, None, [("h", b"x")]) for i in range(5, 10)], base_offset=5)
    rows = _rows(first, second, start=2, end=9, as_of_ms=_TIME + 7)
    assert [(row["offset"], row["key"]) for row in _table(rows)] == [(i, b"%d" % i) for i in range(2, 8)]
    assert [row["headers"] for row in _table(rows, "headers")] == [None] * 3 + [[{"key": "h", "value": b"x"}]] * 3
    rows.keep(rows.offsets % 2 == 0)
    assert [row["offset"] for row in _table(rows, "offset", "timestamp")] == [2, 4, 6]


def test_no_rows_have_all_columns_too() -> None:
    rows = _rows(build_batch([Record(0, 0, None, None)]), start=5)
    assert rows.record_batch(tuple(RECORD_COLUMNS)).num_rows == 0


def test_any_bytes_and_times_fit() -> None:
    batch = build_batch([Record(0, 2**63 - 1, b"\xff", b"\xff", [("\udcff", b"\xff")])])
    rows = _rows(batch).record_batch(tuple(RECORD_COLUMNS))
    assert rows.column("headers").to_pylist() == [[{"key": "\ufffd", "value": b"\xff"}]]
    assert rows.column("timestamp").cast(pa.int64())[0].as_py() > 9 * 10**18


def test_a_batch_has_all_columns() -> None:
    batch = build_batch(
        [Record(0, _TIME, None, bytes(500)), Record(4, _TIME + 3, None, b"")],
        base_offset=0,
        leader_epoch=9,
        compression=Compression.ZSTD,
    )
    header = read_header(batch)
    stored = [StoredBatch(header, 512, 0, True), StoredBatch(header, 600, 2)]
    first, second = batch_rows(_SOURCE, stored, tuple(BATCH_COLUMNS)).to_pylist()
    assert list(first) == list(BATCH_COLUMNS)
    assert first["lastOffset"] == 4
    assert (first["records"], first["compression"], first["bytes"]) == (2, "zstd", len(batch))
    assert (first["segment"], first["position"], first["directory"]) == (100, 512, "/data")
    assert (first["entryType"], first["crcMatches"]) == ("event", True)
    assert (second["entryType"], second["crcMatches"], second["position"]) == ("bridge", None, 600)
