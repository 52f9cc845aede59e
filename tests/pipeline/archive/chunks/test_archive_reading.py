import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from archive_files import archived_rows, write_chunk

from tailrace.pipeline.archive.chunks import archive_reading
from tailrace.pipeline.archive.chunks.archive_reading import archive_rows, group_batches
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.segment_columns import RECORD_COLUMNS

_DATES = [f"2026-11-{day}" for day in range(10, 15)]


def _chunk(root: Path, dates: dict[int, str]) -> Chunk:
    """Writes a chunk with these offsets and the dates of their records."""
    by_date = {date: [offset for offset, each in dates.items() if each == date] for date in set(dates.values())}
    rows = {date: archived_rows(offsets, date=date) for date, offsets in by_date.items()}
    return write_chunk(root, 0, max(dates) + 1, rows)


def _offsets(root: Path, chunk: Chunk, start: int = 0, end: int = 2**63 - 1) -> list[int]:
    batches = list(archive_rows(str(root), chunk, ["value"], start=start, end=end))
    assert all(batch.num_rows for batch in batches)
    values = [value for batch in batches for value in batch.column("value").to_pylist()]
    return [int(value.split()[1]) for value in values]


@pytest.mark.parametrize("seed", range(8))
def test_records_come_in_the_order_of_offsets_whatever_their_dates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(archive_reading, "BATCH_ROWS", 7)
    chance = random.Random(seed)
    offsets = sorted(chance.sample(range(400), 150))
    dates = {offset: chance.choice(_DATES[: chance.randrange(1, 6)]) for offset in offsets}
    chunk = _chunk(tmp_path, dates)
    assert _offsets(tmp_path, chunk) == offsets
    start, end = sorted(chance.sample(range(420), 2))
    assert _offsets(tmp_path, chunk, start, end) == [each for each in offsets if start <= each < end]


def test_dates_that_follow_the_offsets_are_read_one_file_after_the_other(tmp_path: Path) -> None:
    chunk = _chunk(tmp_path, {offset: _DATES[offset // 10] for offset in range(50)})
    found = list(archive_rows(str(tmp_path), chunk))
    assert [batch.num_rows for batch in found] == [10] * 5
    assert found[0].schema.names == list(RECORD_COLUMNS)


def test_row_groups_are_read_one_by_one_whatever_their_values_take(tmp_path: Path) -> None:
    path = tmp_path / "groups.parquet"
    table = archived_rows(range(12))
    pq.write_table(table, path, row_group_size=5)
    with pq.ParquetFile(path) as file:
        batches = list(group_batches(file, 4, ["offset"]))
    assert [batch.column("offset").to_pylist() for batch in batches] == [
        [0, 1, 2, 3],
        [4],
        [5, 6, 7, 8],
        [9],
        [10, 11],
    ]


def test_a_chunk_without_records_has_no_batches(tmp_path: Path) -> None:
    assert list(archive_rows(str(tmp_path), write_chunk(tmp_path, 0, 5, {}))) == []


def test_a_missing_and_a_damaged_file_are_named(tmp_path: Path) -> None:
    chunk = _chunk(tmp_path, {0: _DATES[0]})
    path = tmp_path / chunk.files[0].path
    pq.write_table(archived_rows(range(2), date=_DATES[0]), path)
    with pytest.raises(JobError, match=f"{path} .* cannot be read: it has 2 records, and the manifest says 1; "):
        list(archive_rows(str(tmp_path), chunk))
    path.write_bytes(b"x" * 100)
    with pytest.raises(JobError, match=f"{path} is a part of the archive and cannot be read: Parquet magic bytes"):
        list(archive_rows(str(tmp_path), chunk))
    path.unlink()
    with pytest.raises(JobError, match=f"{path} is a part of the archive and cannot be read: it is missing"):
        list(archive_rows(str(tmp_path), chunk))
