"""The whole command runs in compat_tests/spark/test_replay.py."""

import pytest

from tailrace.cli.main import main


def test_what_is_missing_is_said_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "replay", "--topic", "orders", "--to-topic", "copy", "--from-segments", "data"]) == 2
    assert "tailrace pipeline replay: --map is missing" in capsys.readouterr().err
