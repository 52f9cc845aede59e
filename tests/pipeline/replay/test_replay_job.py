import pytest

from tailrace.pipeline.replay.replay_job import main


def test_what_is_missing_is_said_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--topic", "orders", "--to-topic", "copy"]) == 2
    assert "replay_job.py: --from-archive or --from-segments is missing" in capsys.readouterr().err
