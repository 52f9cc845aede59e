"""Tests the file for spark-submit up to the start of Spark; compat_tests/spark/test_replay.py verifies replays."""

from pathlib import Path

import pytest

from tailrace.pipeline.replay.verify_replay_job import main


def test_a_directory_that_is_no_map_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--map", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"verify_replay_job.py: {tmp_path} is no map of a replay")
