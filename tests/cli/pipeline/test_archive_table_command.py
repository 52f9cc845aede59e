"""Tests `tailrace pipeline archive table` on a real archive; deltalake and pyiceberg read its tables back."""

import json
from pathlib import Path

import pytest
from written_archives import SampleArchive

from tailrace.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def archive(tmp_path: Path) -> SampleArchive:
    archive = SampleArchive(tmp_path / "archive")
    archive.add([0, 1, 2])
    return archive


def test_a_delta_table_is_made_once(archive: SampleArchive, tmp_path: Path, capsys: Capture) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    words = ["pipeline", "archive", "table", archive.directory, "--delta", path]
    assert main(words) == 0
    assert (
        f"ok: the Delta table {path} is the archive at commit 2: 1 files added, 0 removed\n" in capsys.readouterr().out
    )
    assert main([*words, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["files added"] == 0
    assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == 3


def test_an_iceberg_table_is_made_in_a_catalog(
    archive: SampleArchive, tmp_path: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    given = [word for name, value in options.items() for word in ("--catalog-option", f"{name}={value}")]
    words = ["pipeline", "archive", "table", archive.directory, "--iceberg", "shop.orders", "--topic", "orders"]
    assert main([*words, *given]) == 0
    assert "the Iceberg table shop.orders is the archive at commit 2: 1 files added" in capsys.readouterr().out
    assert caplog.messages == []
    table = catalogs.load_catalog("default", **options).load_table("shop.orders")
    assert table.scan().to_arrow().num_rows == 3


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["NONE", "--delta", "t"], 2, "is no archive"),
        (["ARCHIVE", "--delta", "t", "--catalog", "lake"], 2, "have no effect without --iceberg"),
        (["ARCHIVE", "--iceberg", "a.b", "--catalog-option", "uri"], 2, "'uri' is not NAME=VALUE"),
        (["ARCHIVE", "--delta", "ARCHIVE/t"], 2, "the table needs a directory of its own"),
        (["ARCHIVE", "--delta", "t", "--topic", "x"], 2, "the archive has no topic x: it has orders"),
    ],
)
def test_failures_are_one_sentence(
    words: list[str], status: int, sentence: str, archive: SampleArchive, tmp_path: Path, capsys: Capture
) -> None:
    names = {"NONE": str(tmp_path), "ARCHIVE": archive.directory, "ARCHIVE/t": f"{archive.directory}/t"}
    given = [names.get(each, str(tmp_path / "t") if each == "t" else each) for each in words]
    assert main(["pipeline", "archive", "table", *given]) == status
    captured = capsys.readouterr()
    assert captured.err.startswith("tailrace pipeline archive table: ")
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
