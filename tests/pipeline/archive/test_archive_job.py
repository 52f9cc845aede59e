"""Tests the file for spark-submit as far as it needs no Spark."""

from pathlib import Path

import pytest

from tailrace.pipeline.archive.archive_job import main

Capture = pytest.CaptureFixture[str]


def test_a_job_that_cannot_begin_says_why(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", "--to", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "archive_job.py: name topics, or archive all of them with --all\n"
    assert main(["verify", str(tmp_path), "--offline"]) == 1
    assert "is no archive" in capsys.readouterr().err
    (tmp_path / "archive.json").write_text("{}")
    assert main(["run", "orders", "--to", str(tmp_path)]) == 2
    assert "archive.json is damaged" in capsys.readouterr().err


def test_brokers_are_asked_before_spark_starts(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", "orders", "--to", str(tmp_path), "--bootstrap", "127.0.0.1:1"]) == 3
    assert "the broker at 127.0.0.1:1 does not answer" in capsys.readouterr().err
