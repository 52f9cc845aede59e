from pathlib import Path

import pytest
from archive_samples import ARCHIVE, chunk

from tailrace.cli.main import main
from tailrace.pipeline.archive.stores.archive_folder import create_archive

Capture = pytest.CaptureFixture[str]
CLEAN = ["pipeline", "archive", "clean"]


def test_files_that_do_not_count_are_removed_when_they_are_old_enough(tmp_path: Path, capsys: Capture) -> None:
    assert main([*CLEAN, str(tmp_path)]) == 2
    assert "is no archive" in capsys.readouterr().err
    create_archive(str(tmp_path), ARCHIVE)
    orphan = tmp_path / chunk(0, 10).files[0].path
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"12345")
    assert main([*CLEAN, str(tmp_path)]) == 0
    assert capsys.readouterr().out == "0 files with 0 bytes removed\n"
    assert main([*CLEAN, str(tmp_path), "--older-than", "0s", "--dry-run"]) == 0
    assert capsys.readouterr().out == f"{chunk(0, 10).files[0].path}\n1 file with 5 bytes would be removed\n"
    assert main([*CLEAN, str(tmp_path), "--older-than", "0s"]) == 0
    assert not orphan.exists()
