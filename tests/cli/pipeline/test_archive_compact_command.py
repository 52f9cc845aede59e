"""Tests `tailrace pipeline archive compact` as far as it needs no Spark; compat_tests/spark runs it whole."""

from pathlib import Path

import pytest

from tailrace.cli.main import main


def test_a_directory_that_is_no_archive_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "archive", "compact", str(tmp_path)]) == 2
    assert "tailrace pipeline archive compact: " in capsys.readouterr().err
