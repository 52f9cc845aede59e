from pathlib import Path

import pytest

from tailrace.cli.main import main


def test_another_directory_is_refused_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "verify-replay", "--map", str(tmp_path)]) == 2
    assert "tailrace pipeline verify-replay: " in capsys.readouterr().err
