"""Tests the arguments of the job; compat_tests/spark/test_stats.py runs it."""

from pathlib import Path

import pytest

from tailrace.pipeline.stats.stats_job import main


def test_failures_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--segments", str(tmp_path / "none")]) == 2
    assert main(["--segments", str(tmp_path), "--html", str(tmp_path / "none" / "page.html")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"stats_job.py: {tmp_path / 'none'} does not exist")
    assert second.endswith("page.html does not exist: create it first")


@pytest.mark.parametrize("words", [[], ["--segments", "a", "--archive", "b"], ["--segments", "a", "--top", "0"]])
def test_wrong_arguments_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
