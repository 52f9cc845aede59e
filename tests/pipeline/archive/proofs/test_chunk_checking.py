import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from tailrace.pipeline.archive.manifest.archive_layout import NO_DATE
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk, DataFile
from tailrace.pipeline.archive.manifest.record_rollup import batch_rollup
from tailrace.pipeline.archive.proofs.archive_proof import FileFindings
from tailrace.pipeline.archive.proofs.chunk_checking import ReadLog, compare, prove_chunk, read_file, records_of

_DAY_ONE, _DAY_TWO = datetime(2026, 11, 28, 12, tzinfo=UTC), datetime(2026, 11, 29, tzinfo=UTC)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _rows(*offsets: int, time: datetime | None = _DAY_ONE, partition: int = 3) -> Any:
    count = len(offsets)
    return pa.table(
        {
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array([b"value %d" % each for each in offsets], pa.binary()),
            "topic": pa.array(["t"] * count),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([time] * count, pa.timestamp("us", tz="UTC")),
            "headers": pa.array([None] * count, _HEADERS),
        }
    )


def _write(root: Path, rows: Any, date: str = "2026-11-28") -> DataFile:
    path = root / f"{date}.parquet"
    pq.write_table(rows, path)
    offsets = rows["offset"].to_pylist()
    return DataFile(
        path.name, date, min(offsets), max(offsets), len(rows), path.stat().st_size, batch_rollup(rows),
        hashlib.sha256(path.read_bytes()).hexdigest(),
    )  # fmt: skip


def _chunk(*files: DataFile, end: int = 5) -> Chunk:
    return Chunk(
        "t", "an-id", 3, 0, end, "0a0b0c0d", sum(each.records for each in files),
        sum(each.rollup for each in files) % 2**64, files,
    )  # fmt: skip


def _findings(root: Path, file: DataFile) -> FileFindings:
    return read_file(str(root), _chunk(file), file)[0]


def _log(rows: Any, *, deleted: int = 0, end: int = 5) -> ReadLog:
    return ReadLog(records_of(rows.to_batches()), end, ((0, deleted - 1),) if deleted else ())


def test_a_file_is_as_the_manifest_says(tmp_path: Path) -> None:
    file = _write(tmp_path, _rows(0, 1, 4))
    found = _findings(tmp_path, file)
    assert found == FileFindings(file.path, records=3, rollup=file.rollup, runs=((0, 1), (4, 4)))


def test_a_missing_a_truncated_and_a_damaged_file_cannot_be_read(tmp_path: Path) -> None:
    file = _write(tmp_path, _rows(0, 1))
    path = tmp_path / file.path
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert _findings(tmp_path, file).fault == (
        f"is truncated: it has {file.bytes - 1} bytes, and the manifest says {file.bytes}"
    )
    path.write_bytes(b"x" * len(content))
    assert _findings(tmp_path, file).fault.startswith("cannot be read: Parquet magic bytes not found")
    path.unlink()
    assert _findings(tmp_path, file).fault == "is missing"


def test_a_flipped_bit_is_found_wherever_it_is(tmp_path: Path) -> None:
    file = _write(tmp_path, _rows(*range(5)))
    chunk = _chunk(file)
    path = tmp_path / file.path
    content = path.read_bytes()
    assert prove_chunk(str(tmp_path), chunk, None).problems == ()
    for position in range(0, len(content), 29):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        assert prove_chunk(str(tmp_path), chunk, None).problems, position


def test_a_value_that_was_replaced_is_found(tmp_path: Path) -> None:
    file = _write(tmp_path, _rows(0, 1))
    rows = _rows(0, 1)
    changed = rows.set_column(1, "value", pa.array([b"value 0", b"VALUE 1"], pa.binary()))
    forged = replace(_write(tmp_path, changed), rollup=file.rollup)
    assert "has changed" in prove_chunk(str(tmp_path), _chunk(forged, end=2), None).problems[0]
    logged = prove_chunk(str(tmp_path), _chunk(forged, end=2), lambda: _log(rows))
    assert "t/3: offset 1 has another record than the log" in logged.problems


def test_an_offset_twice_is_found(tmp_path: Path) -> None:
    file = _write(tmp_path, _rows(0, 1, 1, 2))
    assert _findings(tmp_path, file).runs == ((0, 2), (1, 1))
    assert "t/3: offset 1 occurs more than once" in prove_chunk(str(tmp_path), _chunk(file), None).problems


@pytest.mark.parametrize(
    ("rows", "date", "strays"),
    [
        (_rows(0, 1), "2026-11-29", 2),
        (_rows(0, 1, partition=4), "2026-11-28", 2),
        (pa.concat_tables([_rows(0), _rows(1, time=_DAY_TWO)]), "2026-11-28", 1),
        (_rows(0, time=None), "2026-11-28", 1),
        (_rows(0, time=None), NO_DATE, 0),
        (_rows(0), NO_DATE, 1),
    ],
)
def test_rows_that_do_not_belong_into_the_file_are_counted(tmp_path: Path, rows: Any, date: str, strays: int) -> None:
    assert _findings(tmp_path, _write(tmp_path, rows, date)).strays == strays


def test_a_chunk_is_compared_with_the_log(tmp_path: Path) -> None:
    one = _write(tmp_path, _rows(0, 2, 4))
    two = _write(tmp_path, _rows(1, 3, time=_DAY_TWO), "2026-11-29")
    log = pa.concat_tables([_rows(0), _rows(1, time=_DAY_TWO), _rows(2), _rows(3, time=_DAY_TWO), _rows(4)])
    proof = prove_chunk(str(tmp_path), _chunk(one, two), lambda: _log(log))
    assert (proof.problems, proof.compared, proof.gone, proof.log_end) == ((), 5, 0, 5)
    proof = prove_chunk(str(tmp_path), _chunk(one, two), lambda: _log(log.slice(3), deleted=3, end=9))
    assert (proof.problems, proof.compared, proof.gone, proof.log_end) == ((), 2, 3, 9)


def test_a_log_that_cannot_be_read_is_the_problem(tmp_path: Path) -> None:
    file = _write(tmp_path, _rows(*range(5)))
    assert prove_chunk(str(tmp_path), _chunk(file), lambda: "no broker responds").problems == ("no broker responds",)


def test_the_rollups_of_what_both_have_are_compared() -> None:
    archived, logged = records_of(_rows(0, 1, 2).to_batches()), _log(_rows(1, 2, 3))
    found = compare(archived, logged)
    assert found.common_rollup == found.archive_rollup == int(np.sum(archived.hashes[1:], dtype=np.uint64))
    assert (found.runs, found.differing) == (((1, 3),), ())
