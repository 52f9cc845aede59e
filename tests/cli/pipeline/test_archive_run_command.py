"""Tests `tailrace pipeline archive run` as far as it needs no Spark; compat_tests/spark runs it whole."""

from pathlib import Path

import pytest

from tailrace.cli.main import main

Capture = pytest.CaptureFixture[str]
RUN = ["pipeline", "archive", "run"]


def test_wrong_usage_is_one_sentence(tmp_path: Path, capsys: Capture) -> None:
    assert main([*RUN, "--to", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "tailrace pipeline archive run: name topics, or archive all of them with --all\n"
    (tmp_path / "archive.json").write_text("{}")
    assert main([*RUN, "orders", "--to", str(tmp_path)]) == 2
    assert "archive.json is damaged" in capsys.readouterr().err


def test_a_missing_source_is_named_before_spark_starts(tmp_path: Path, capsys: Capture) -> None:
    assert main([*RUN, "orders", "--to", str(tmp_path / "a"), "--bootstrap", "127.0.0.1:1"]) == 3
    assert "the broker at 127.0.0.1:1 does not answer" in capsys.readouterr().err
    assert main([*RUN, "orders", "--to", str(tmp_path / "c"), "--sc", "127.0.0.1:1"]) == 3
    assert "is in the store of the SC: the SC at 127.0.0.1:1 does not answer" in capsys.readouterr().err
    assert main([*RUN, "orders", "--to", str(tmp_path / "b"), "--segments", str(tmp_path / "nothing")]) == 2
    assert "does not exist on the driver: name the data directory of an SPU" in capsys.readouterr().err
