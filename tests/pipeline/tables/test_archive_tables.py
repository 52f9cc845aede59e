"""Tests which files a table gets and loses, with a table in memory."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from written_archives import SampleArchive

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.schemas.value_schemas import ValueSchema
from tailrace.pipeline.tables.archive_tables import TablePlan, check_apart, files_of, plan_of, update_table


class _Table:
    """A table in memory. `before_commit` runs before a commit, and says whether the commit takes effect."""

    place = "the table"

    def __init__(self, directory: Path, before_commit: Callable[[], bool] = lambda: True) -> None:
        self.files_directory = str(directory)
        self.names: set[str] = set()
        self.seq = 0
        self._before_commit = before_commit

    def load(self, archive: str) -> tuple[int, set[str]]:
        return self.seq, set(self.names)

    def commit(self, archive: str, seq: int, plan: TablePlan, schema: pa.Schema) -> bool:
        if not self._before_commit():
            return False
        self.names = (self.names | {each.name for each in plan.add}) - set(plan.remove)
        self.seq = seq
        return True


@pytest.fixture
def archive(tmp_path: Path) -> SampleArchive:
    return SampleArchive(tmp_path / "archive")


def test_the_plan_is_the_difference_of_two_sets(archive: SampleArchive) -> None:
    archive.add([0, 1])
    wanted = files_of(archive.folder.load().manifest, ["orders"])
    (name,) = wanted
    assert name.startswith("orders/date=2026-11-28/")
    assert (wanted[name].records, wanted[name].first, wanted[name].last) == (2, 0, 1)
    plan = plan_of(wanted, ["old", name])
    assert (plan.add, plan.remove) == ((), ("old",))
    assert plan_of(wanted, [name]).is_empty
    with pytest.raises(JobError, match="the archive has no topic clicks: it has orders"):
        files_of(archive.folder.load().manifest, ["clicks"])


def test_files_get_second_names_that_survive_the_archive(archive: SampleArchive, tmp_path: Path) -> None:
    (file,) = archive.add([0, 1]).files
    table = _Table(tmp_path / "table")
    assert update_table(archive.folder, table).added == 1
    (name,) = table.names
    linked = tmp_path / "table" / name
    assert linked.samefile(f"{archive.directory}/{file.path}")
    Path(archive.directory, file.path).unlink()
    assert linked.stat().st_size == file.bytes


def test_a_change_meanwhile_is_planned_again(archive: SampleArchive, tmp_path: Path) -> None:
    chunks = [archive.add([0]), archive.add([1])]
    refusals = iter([False, True])

    def before_commit() -> bool:
        is_first = not (takes_effect := next(refusals))
        if is_first:
            archive.merge(chunks)
        return takes_effect

    table = _Table(tmp_path / "table", before_commit)
    assert update_table(archive.folder, table).facts["files"] == 1
    assert table.names == set(files_of(archive.folder.load().manifest, ()))


def test_a_table_that_is_newer_or_always_changes_stays_as_it_is(archive: SampleArchive, tmp_path: Path) -> None:
    archive.add([0])
    table = _Table(tmp_path / "table", lambda: False)
    with pytest.raises(JobError, match="the table is as it was, because another process changes the table: run again"):
        update_table(archive.folder, table)
    table.seq = 99
    with pytest.raises(JobError, match="because the table is newer than the archive"):
        update_table(archive.folder, table)


def test_columns_that_have_no_common_type_are_refused(archive: SampleArchive, tmp_path: Path) -> None:
    schema = '{"type":"struct","fields":[{"name":"id","type":"%s","nullable":true}]}'
    archive.add([0], ValueSchema("json", schema % "long"))
    archive.add([1], ValueSchema("json", schema % "string"))
    with pytest.raises(JobError, match="the files have columns of different types"):
        update_table(archive.folder, _Table(tmp_path / "table"))


def test_a_file_that_is_missing_is_named(archive: SampleArchive, tmp_path: Path) -> None:
    (file,) = archive.add([0]).files
    Path(archive.directory, file.path).unlink()
    with pytest.raises(JobError, match=f"{file.path} is missing: run again"):
        update_table(archive.folder, _Table(tmp_path / "table"))


def test_a_table_lies_outside_of_the_archive(tmp_path: Path) -> None:
    check_apart(str(tmp_path / "archive"), str(tmp_path / "archive-table"))
    with pytest.raises(JobError, match="needs a directory of its own"):
        check_apart(str(tmp_path / "archive"), str(tmp_path / "archive" / "data" / "t"))
