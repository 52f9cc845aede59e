"""Tests the program for spark-submit up to the start of Spark."""

from pathlib import Path

import pytest

from tailrace.pipeline.engine.engine_job import main

FUNCTION = """
from tailrace.trigger import Retry, trigger

@trigger("orders", retry=Retry(mode="aside"))
def bill(context, event):
    pass
"""


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        (None, [], "billing.py: the file cannot be read"),
        ("def handler(context, event): pass", [], "the topic is missing"),
        (FUNCTION, [], "retry_mode aside"),
        (FUNCTION, ["--bootstrap", "nowhere"], "bootstrap: 'nowhere' is not HOST:PORT"),
    ],
)
def test_wrong_usage_is_one_sentence(
    text: str | None, words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "billing.py"
    if text is not None:
        path.write_text(text)
    assert main([str(path), "--checkpoint", str(tmp_path / "c"), *words]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
