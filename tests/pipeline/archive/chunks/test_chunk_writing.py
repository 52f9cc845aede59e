import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from log_piece_samples import DAY_MS, NOON_MS, TOPIC_ID, piece_of_records

from tailrace.pipeline.archive.chunks import chunk_writing
from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget, WrittenChunks, write_chunks
from tailrace.pipeline.archive.manifest.archive_layout import parse_file_name
from tailrace.pipeline.archive.manifest.archive_manifest import DataFile
from tailrace.pipeline.archive.manifest.record_rollup import batch_rollup
from tailrace.pipeline.archive.manifest.rollup_sums import add
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.schemas.value_schemas import ValueSchema
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.log_pieces import LogPiece, deleted_piece
from tailrace.pipeline.segments.segment_columns import RECORD_COLUMNS
from tailrace.runtime.chance import RandomChance


def written(directory: Path, *pieces: LogPiece, chunk_bytes: int = 2**26) -> WrittenChunks:
    def read(handle: Callable[[LogPiece], None]) -> None:
        for each in pieces:
            handle(each)

    target = ChunkTarget(str(directory), "orders", TOPIC_ID, 0, chunk_bytes)
    found = write_chunks(target, RandomChance(1), read)
    for chunk in found.chunks:
        chunk.check()
    return found


def rows_of(directory: Path, file: DataFile) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(directory / file.path, partitioning=None).to_pylist()
    return rows


def leftovers(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.rglob("*") if each.is_file())


def test_a_chunk_has_its_records_and_explains_the_other_offsets(tmp_path: Path) -> None:
    pieces = (piece_of_records([3, 4, 7]), deleted_piece(8, 10), piece_of_records([10, 11], end=13, epoch=5))
    (chunk,) = written(tmp_path, *pieces).chunks
    assert (chunk.start, chunk.end, chunk.records, chunk.epoch_first, chunk.epoch_last) == (3, 13, 5, 3, 5)
    assert chunk.gaps == (Gap(5, 6, "compaction"), Gap(8, 9, "deleted"), Gap(12, 12, "compaction"))
    (file,) = chunk.files
    assert file.date == "2026-11-28"
    facts = parse_file_name(Path(file.path).name)
    assert facts is not None
    assert (facts.topic_id, facts.partition, facts.first, facts.last, facts.epoch) == (TOPIC_ID, 0, 3, 11, 5)
    assert Path(file.path).parts[:-1] == ("data", "orders", "date=2026-11-28")
    content = (tmp_path / file.path).read_bytes()
    assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    rows = rows_of(tmp_path, file)
    assert list(rows[0]) == list(RECORD_COLUMNS)
    assert [(each["offset"], each["value"], each["epoch"]) for each in rows] == [
        (3, b"value-3", 3),
        (4, b"value-4", 3),
        (7, b"value-7", 3),
        (10, b"value-10", 5),
        (11, b"value-11", 5),
    ]
    assert rows[0]["headers"] == [{"key": "trace", "value": b"3"}]


def test_the_roll_up_is_that_of_the_rows(tmp_path: Path) -> None:
    pieces = [piece_of_records(range(start, start + 100)) for start in range(0, 500, 100)]
    (chunk,) = written(tmp_path, *pieces).chunks
    table = pq.read_table(tmp_path / chunk.files[0].path, partitioning=None)
    assert chunk.rollup == chunk.files[0].rollup == batch_rollup(table)
    assert chunk.rollup == add(*(batch_rollup(piece.arrow()) for piece in pieces))


def test_each_date_has_a_file_of_its_own(tmp_path: Path) -> None:
    def time_of(offset: int) -> int:
        return -1 if offset == 5 else NOON_MS + (offset % 3) * DAY_MS

    (chunk,) = written(tmp_path, piece_of_records(range(9), time_of=time_of)).chunks
    dates = {each.date: [row["offset"] for row in rows_of(tmp_path, each)] for each in chunk.files}
    assert dates == {
        "__HIVE_DEFAULT_PARTITION__": [5],
        "2026-11-28": [0, 3, 6],
        "2026-11-29": [1, 4, 7],
        "2026-11-30": [2, 8],
    }
    assert [(each.first, each.last, each.records) for each in chunk.files][1:] == [(0, 6, 3), (1, 7, 3), (2, 8, 2)]


def test_a_chunk_ends_when_it_is_large_enough(tmp_path: Path) -> None:
    pieces = [piece_of_records(range(start, start + 10)) for start in range(0, 50, 10)]
    found = written(tmp_path, *pieces, chunk_bytes=pieces[-1].source_bytes + 1)
    assert [(each.start, each.end) for each in found.chunks] == [(0, 20), (20, 40), (40, 50)]
    assert found.source_bytes == sum(each.source_bytes for each in pieces)
    assert len(leftovers(tmp_path)) == 3


def test_a_chunk_ends_when_it_would_get_too_many_dates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_writing, "DATES_MAX", 3)
    piece = piece_of_records([0, 1, 4, 5, 6, 7, 9], end=11, time_of=lambda offset: NOON_MS + offset // 2 * DAY_MS)
    found = written(tmp_path, piece)
    assert [(each.start, each.end, len(each.files), each.records) for each in found.chunks] == [
        (0, 9, 3, 6),
        (9, 11, 1, 1),
    ]
    assert found.chunks[0].gaps == (Gap(2, 3, "compaction"), Gap(8, 8, "compaction"))


def test_offsets_without_records_need_no_file(tmp_path: Path) -> None:
    (chunk,) = written(tmp_path, deleted_piece(0, 10)).chunks
    assert (chunk.records, chunk.files, chunk.epoch_last) == (0, (), -1)
    assert leftovers(tmp_path) == []


def test_small_row_groups_are_written_before_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_writing, "_BUFFERED_BYTES_MAX", 4000)
    pieces = [
        piece_of_records(range(start, start + 10), time_of=lambda offset: NOON_MS + offset % 2 * DAY_MS)
        for start in range(0, 100, 10)
    ]
    (chunk,) = written(tmp_path, *pieces).chunks
    assert all(pq.ParquetFile(tmp_path / each.path).num_row_groups > 1 for each in chunk.files)
    assert [len(rows_of(tmp_path, each)) for each in chunk.files] == [50, 50]


def test_two_attempts_never_write_the_same_file(tmp_path: Path) -> None:
    target = ChunkTarget(str(tmp_path), "orders", TOPIC_ID, 0)
    chance = RandomChance(1)
    names = [
        write_chunks(target, chance, lambda handle: handle(piece_of_records([1, 2])), "0a1b").chunks[0].files[0].path
        for _ in range(2)
    ]
    assert len(set(names)) == len(leftovers(tmp_path)) == 2
    assert {each.rpartition("-")[2][:4] for each in names} == {"0a1b"}


def test_an_attempt_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def read(handle: Callable[[LogPiece], None]) -> None:
        handle(piece_of_records(range(10)))
        handle(piece_of_records(range(10, 20)))
        raise JobError("orders/0 cannot be read")

    with pytest.raises(JobError, match="orders/0 cannot be read"):
        write_chunks(ChunkTarget(str(tmp_path), "orders", TOPIC_ID, 0, chunk_bytes=1), RandomChance(1), read)
    assert leftovers(tmp_path) == []


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system of the test cannot be filled, so its last call is."""

    def write(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(JobError, match=f"^the disk of {tmp_path} is full, and the archive is as it was: free some"):
        written(tmp_path, piece_of_records(range(10)))
    assert leftovers(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(JobError, match="data/orders cannot be written, and the archive is as it was: Not a directory"):
        written(tmp_path, piece_of_records(range(10)))


def test_values_become_columns_and_stay(tmp_path: Path) -> None:
    fields = '[{"name":"id","type":"long","nullable":true}]'
    schema = ValueSchema("json", f'{{"type":"struct","fields":{fields}}}')
    target = ChunkTarget(str(tmp_path), "orders", TOPIC_ID, 0, value_schema=schema)

    def read(handle: Callable[[LogPiece], None]) -> None:
        handle(piece_of_records([1, 2]))

    found = write_chunks(target=target, chance=RandomChance(2), read=read)
    assert found.unfit == 2, "the values are no JSON"
    (file,) = found.chunks[0].files
    rows = rows_of(tmp_path, file)
    assert list(rows[0]) == [*RECORD_COLUMNS, "data", "dataError"]
    assert [(each["value"], each["data"]) for each in rows] == [(b"value-1", None), (b"value-2", None)]
    assert rows[0]["dataError"].startswith("JSON is malformed")
    raw = written(tmp_path / "raw", piece_of_records([1, 2])).chunks[0]
    assert raw.rollup == found.chunks[0].rollup, "the proof is about the records, not about the schema"
