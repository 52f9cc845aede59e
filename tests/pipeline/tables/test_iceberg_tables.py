"""Tests that an Iceberg table is the archive, as pyiceberg reads it."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import Catalog, load_catalog
from written_archives import ARCHIVE_ID, SampleArchive

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.schemas.value_schemas import ValueSchema
from tailrace.pipeline.tables.archive_tables import files_of, plan_of, update_table
from tailrace.pipeline.tables.iceberg_tables import IcebergArchiveTable

SCHEMA = ValueSchema("json", '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true}]}')
NAME = "lake.orders"


@pytest.fixture
def archive(tmp_path: Path) -> SampleArchive:
    return SampleArchive(tmp_path / "archive")


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def catalog(options: dict[str, str]) -> Catalog:
    return load_catalog("lake", **options)


def _table(options: dict[str, str]) -> IcebergArchiveTable:
    return IcebergArchiveTable(NAME, "lake", options)


def _rows(catalog: Catalog, *columns: str) -> list[dict[str, Any]]:
    scan = catalog.load_table(NAME).scan(selected_fields=columns or ("offset", "value"))
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: int(row["offset"]))


def test_the_table_has_the_rows_of_the_archive_and_follows_it(
    archive: SampleArchive, options: dict[str, str], catalog: Catalog
) -> None:
    chunks = [archive.add([0, 1]), archive.add([2, 3, 4])]
    result = update_table(archive.folder, _table(options))
    assert (result.added, result.removed) == (2, 0)
    assert _rows(catalog) == archive.rows()
    again = update_table(archive.folder, _table(options))
    assert again.verdict == "the Iceberg table lake.orders is the archive at commit 3: nothing to change"
    archive.merge(chunks)
    archive.add([5])
    changed = update_table(archive.folder, _table(options))
    assert (changed.added, changed.removed) == (2, 2)
    assert _rows(catalog) == archive.rows()
    snapshots = catalog.load_table(NAME).snapshots()
    assert [each.summary["tailrace.commit"] for each in snapshots if each.summary] == ["3", "5"]


def test_of_two_runs_the_one_that_is_late_plans_again(
    archive: SampleArchive, options: dict[str, str], catalog: Catalog
) -> None:
    archive.add([0])
    update_table(archive.folder, _table(options))
    chunk = archive.add([1])
    late = _table(options)
    seq, present = late.load(ARCHIVE_ID)
    stale = plan_of(files_of(archive.folder.load().manifest, ()), present)
    archive.merge([chunk])  # a compaction: the file of the stale plan is replaced
    update_table(archive.folder, _table(options))
    import pyarrow.parquet as pq

    from tailrace.runtime.embedded.plain_files import link_file

    (file,) = stale.add
    link_file(f"{archive.directory}/{file.path}", f"{late.files_directory}/{file.name}")
    assert not late.commit(ARCHIVE_ID, seq + 1, stale, pq.read_schema(f"{archive.directory}/{file.path}"))
    assert _rows(catalog) == archive.rows()


def test_times_outside_the_calendar_are_rows_as_well(
    archive: SampleArchive, options: dict[str, str], catalog: Catalog
) -> None:
    archive.add([0, 1, 2], times={1: 10**15, 2: 2**62})
    update_table(archive.folder, _table(options))
    assert _rows(catalog) == archive.rows()
    late = catalog.load_table(NAME).scan("timestamp > '9999-01-01T00:00:00+00:00'", selected_fields=("offset",))
    assert late.to_arrow().column("offset").to_pylist() == [1, 2]


def test_columns_of_values_are_added_to_the_table(
    archive: SampleArchive, options: dict[str, str], catalog: Catalog
) -> None:
    archive.add([0])
    update_table(archive.folder, _table(options))
    archive.add([1], SCHEMA)
    update_table(archive.folder, _table(options))
    first, second = _rows(catalog, "offset", "data", "dataError")
    assert (first["data"], first["dataError"]) == (None, None)
    assert second["dataError"].startswith("JSON is malformed")


def test_a_table_of_something_else_stays_as_it_is(
    archive: SampleArchive, options: dict[str, str], catalog: Catalog
) -> None:
    import pyarrow as pa

    archive.add([0])
    catalog.create_namespace("lake")
    catalog.create_table(NAME, pa.schema([("mine", pa.int64())])).append(pa.table({"mine": [1]}))
    with pytest.raises(JobError, match="is not one of this archive: name another table"):
        update_table(archive.folder, _table(options))


def test_a_catalog_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/none/catalog.db", "warehouse": f"file://{tmp_path}"}
    with pytest.raises(JobError, match=r"lake\.orders cannot be opened in the catalog lake: .*unable to open database"):
        IcebergArchiveTable(NAME, "lake", options)
