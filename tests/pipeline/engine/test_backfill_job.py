"""Tests the program for spark-submit up to the start of Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from archived_orders import archive_of
from worker_pools import function_in

from tailrace.pipeline.engine.backfill_job import main


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """Takes back where the program has sent its logs: to the standard error of this test."""
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--archive", "nothing", "--output-archive", "o"], 2, "nothing is no archive"),
        (["--archive", "ARCHIVE"], 2, "give --progress DIR"),
        (["--archive", "ARCHIVE", "--progress", "p", "--bootstrap", "nowhere"], 2, "bootstrap: 'nowhere'"),
        (
            ["--archive", "ARCHIVE", "--output-archive", "o", "--from", "2026-01-02", "--until", "2026-01-01"],
            2,
            "window",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(
    words: list[str], status: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archive_of(tmp_path / "archive", {0: [(0, 4)]})
    function = function_in(tmp_path, 'from tailrace.trigger import trigger\n@trigger("orders")\ndef f(c, e): pass')
    assert main([function.path, *[archive if each == "ARCHIVE" else each for each in words]]) == status
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
