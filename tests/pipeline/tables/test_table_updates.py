"""Tests the functions that a program calls, and what they refuse."""

from pathlib import Path

import pytest
from written_archives import SampleArchive

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.tables import delta_table, iceberg_table, table_updates


def test_a_directory_that_is_no_archive_makes_no_table(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    with pytest.raises(JobError, match="is no archive"):
        delta_table(str(tmp_path), str(tmp_path / "table"))
    assert list(tmp_path.iterdir()) == []


def test_a_delta_table_has_a_directory(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    with pytest.raises(JobError, match="the directory of the Delta table is empty"):
        delta_table(str(tmp_path), "")


def test_an_iceberg_table_has_a_namespace(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    with pytest.raises(JobError, match="'orders' is no name of an Iceberg table: write NAMESPACE"):
        iceberg_table(str(tmp_path), "orders")


def test_a_missing_package_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = SampleArchive(tmp_path / "archive")
    monkeypatch.setattr(table_updates, "find_spec", lambda name: None)
    with pytest.raises(
        JobError, match=r"deltalake is not installed. Install it with `pip install 'tailrace\[delta\]'`"
    ):
        delta_table(archive.directory, str(tmp_path / "table"))
