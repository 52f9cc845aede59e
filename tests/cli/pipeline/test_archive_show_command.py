import json
from pathlib import Path

import pytest
from archive_samples import ARCHIVE, archived_partition, chunk

from tailrace.cli.main import main
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive

Capture = pytest.CaptureFixture[str]
SHOW = ["pipeline", "archive", "show"]


def test_an_archive_is_shown_by_partition(tmp_path: Path, capsys: Capture) -> None:
    assert main([*SHOW, str(tmp_path)]) == 2
    assert "is no archive" in capsys.readouterr().err
    create_archive(str(tmp_path), ARCHIVE)
    folder = ArchiveFolder(str(tmp_path))
    folder.commit(folder.load(), "00000000", 0, partitions_added=[archived_partition()], chunks_added=[chunk(0, 10)])
    assert main([*SHOW, str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC   PARTITION  START  POSITION  RECORDS  FILES  SIZE",
        "orders          0      0        10       10      1  1000 bytes",
        f"archive {ARCHIVE.id} with 1 commit, its head beside the files",
    ]
    assert main([*SHOW, str(tmp_path), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"][0]["position"] == 10
    next((tmp_path / "manifest").glob("0*")).unlink()
    assert main([*SHOW, str(tmp_path)]) == 1
    assert "is a part of the manifest and cannot be read" in capsys.readouterr().err
