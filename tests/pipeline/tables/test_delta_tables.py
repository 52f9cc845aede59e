"""Tests that a Delta table is the archive, as deltalake reads it."""

from pathlib import Path
from typing import Any

import pytest

deltalake = pytest.importorskip("deltalake")

import pyarrow as pa  # noqa: E402
from written_archives import ARCHIVE_ID, SampleArchive  # noqa: E402

from tailrace.pipeline.jobs.job_errors import JobError  # noqa: E402
from tailrace.pipeline.schemas.value_schemas import ValueSchema  # noqa: E402
from tailrace.pipeline.tables.archive_tables import TablePlan, files_of, plan_of, update_table  # noqa: E402
from tailrace.pipeline.tables.delta_tables import DeltaArchiveTable  # noqa: E402

SCHEMA = ValueSchema("json", '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true}]}')


@pytest.fixture
def archive(tmp_path: Path) -> SampleArchive:
    return SampleArchive(tmp_path / "archive")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def _rows(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = deltalake.DeltaTable(path).to_pyarrow_table(columns=["offset", "value"]).to_pylist()
    return sorted(found, key=lambda row: int(row["offset"]))


def test_the_table_has_the_rows_of_the_archive_and_follows_it(archive: SampleArchive, path: str) -> None:
    chunks = [archive.add([0, 1]), archive.add([2, 3, 4])]
    result = update_table(archive.folder, DeltaArchiveTable(path))
    assert (result.added, result.removed) == (2, 0)
    assert _rows(path) == archive.rows()
    again = update_table(archive.folder, DeltaArchiveTable(path))
    assert again.verdict == f"the Delta table {path} is the archive at commit 3: nothing to change"
    archive.merge(chunks)
    archive.add([5])
    changed = update_table(archive.folder, DeltaArchiveTable(path))
    assert (changed.added, changed.removed) == (2, 2)
    assert _rows(path) == archive.rows()
    table = deltalake.DeltaTable(path)
    assert table.transaction_version(f"tailrace-archive-{ARCHIVE_ID}") == 5
    assert table.version() == 2, "one version for each transaction, and the first for the empty table"
    assert table.partitions() == [{"date": "2026-11-28"}]


class _KilledError(BaseException):
    """The end of a process."""


class _DyingTable(DeltaArchiveTable):
    """A table whose process dies right before or right after the transaction."""

    def __init__(self, path: str, *, is_late: bool) -> None:
        super().__init__(path)
        self._is_late = is_late

    def commit(self, archive: str, seq: int, plan: TablePlan, schema: pa.Schema) -> bool:
        if self._is_late:
            assert super().commit(archive, seq, plan, schema)
        raise _KilledError


@pytest.mark.parametrize("is_late", [False, True])
def test_a_killed_run_has_changed_nothing_or_all(archive: SampleArchive, path: str, is_late: bool) -> None:
    chunks = [archive.add([0, 1])]
    update_table(archive.folder, DeltaArchiveTable(path))
    before = _rows(path)
    chunks.append(archive.add([2]))
    archive.merge(chunks)
    with pytest.raises(_KilledError):
        update_table(archive.folder, _DyingTable(path, is_late=is_late))
    assert _rows(path) == (archive.rows() if is_late else before)
    again = update_table(archive.folder, DeltaArchiveTable(path))
    assert (again.added, again.removed) == ((0, 0) if is_late else (1, 1))
    assert _rows(path) == archive.rows()


def test_of_two_runs_the_one_that_is_late_plans_again(archive: SampleArchive, path: str) -> None:
    archive.add([0])
    update_table(archive.folder, DeltaArchiveTable(path))
    chunk = archive.add([1])
    late = DeltaArchiveTable(path)
    seq, present = late.load(ARCHIVE_ID)
    stale = plan_of(files_of(archive.folder.load().manifest, ()), present)
    archive.merge([chunk])  # a compaction: the file of the stale plan is replaced
    update_table(archive.folder, DeltaArchiveTable(path))
    assert not late.commit(ARCHIVE_ID, seq + 1, stale, pa.schema([]))
    assert _rows(path) == archive.rows()


def test_columns_of_values_are_added_to_the_table(archive: SampleArchive, path: str) -> None:
    archive.add([0])
    update_table(archive.folder, DeltaArchiveTable(path))
    archive.add([1], SCHEMA)
    update_table(archive.folder, DeltaArchiveTable(path))
    found = deltalake.DeltaTable(path).to_pyarrow_table(columns=["offset", "dataError"]).sort_by("offset").to_pylist()
    assert found[0]["dataError"] is None
    assert found[1]["dataError"].startswith("JSON is malformed")
    archive.add([2], ValueSchema("json", SCHEMA.json.replace("long", "string")))
    with pytest.raises(JobError, match="the column data has another type in the Delta table"):
        update_table(archive.folder, DeltaArchiveTable(path))


def test_a_table_of_something_else_stays_as_it_is(archive: SampleArchive, path: str) -> None:
    archive.add([0])
    deltalake.write_deltalake(path, pa.table({"mine": [1]}))
    with pytest.raises(JobError, match="is not one of this archive: name another directory"):
        update_table(archive.folder, DeltaArchiveTable(path))
    with pytest.raises(JobError, match="needs a directory of its own"):
        update_table(archive.folder, DeltaArchiveTable(f"{archive.directory}/data/table"))


def test_a_path_that_is_a_file_is_said_in_one_line(archive: SampleArchive, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(JobError, match=r"the Delta table .*/file cannot be read: .*Not a directory") as found:
        update_table(archive.folder, DeltaArchiveTable(str(tmp_path / "file")))
    assert str(found.value).isprintable()
