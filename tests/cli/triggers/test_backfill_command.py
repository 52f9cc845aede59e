"""Tests the command line of `tailrace trigger backfill`; compat_tests/spark/ runs it."""

import re

import pytest

from tailrace.cli.main import main
from tailrace.cli.triggers.backfill_command import _WITHOUT_EFFECT
from tailrace.pipeline.engine.engine_settings import TREATMENTS, Way


def test_settings_without_effect_have_no_flag() -> None:
    idle = {name for name, treatment in TREATMENTS.items() if Way.BACKFILL not in treatment.holds}
    assert set(_WITHOUT_EFFECT) == idle | {"retry_mode"}


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--archive", "nothing", "--output-archive", "o"], 2, "nothing is no archive"),
        (["--archive", "a"], 2, "give --progress DIR"),
        (["--archive", "a", "--output-archive", "o", "--sc", "127.0.0.1:1"], 2, "--sc has no effect"),
        (["--archive", "a", "--progress", "p", "--from", "2026-01-02", "--until", "2026-01-01"], 2, "the window ends"),
    ],
)
def test_wrong_usage_is_one_sentence(
    words: list[str], status: int, sentence: str, function: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trigger", "backfill", function, *words]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"tailrace trigger backfill: .*\n", captured.err)
    assert sentence in captured.err
