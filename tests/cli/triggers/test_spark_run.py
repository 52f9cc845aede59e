"""Tests the command line of `tailrace trigger run --engine spark`; compat_tests/spark/ runs it."""

import re

import pytest

from tailrace.cli.main import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--engine", "spark"], "give the file of the function"),
        (["FILE", "--engine", "spark"], "--engine spark needs --checkpoint DIR"),
        (["--engine", "spark", "--deployed", "bill"], "--deployed runs a replica"),
        (["FILE", "--engine", "spark", "--checkpoint", "c", "--sc", "nowhere"], "--sc: 'nowhere' is not HOST:PORT"),
        (["FILE", "--engine", "spark", "--checkpoint", "c", "--retry-mode", "aside"], "retry_mode aside"),
        (["FILE", "--checkpoint", "c"], "--checkpoint has no effect without --engine spark"),
    ],
)
def test_wrong_usage_is_one_sentence(
    words: list[str], sentence: str, function: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trigger", "run", *[function if each == "FILE" else each for each in words]]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"tailrace trigger run: .*\n", captured.err)
    assert sentence in captured.err
