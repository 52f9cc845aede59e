"""Tests the command line of `tailrace trigger run`; compat_tests/triggers/ runs real replicas with it."""

import re

import pytest

from tailrace.cli.main import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--sc", "127.0.0.1:1"], "give the file of the function, or name a deployed trigger with --deployed"),
        (["FILE", "--deployed", "billing"], "--deployed runs the function that was deployed: give no file"),
        (["--deployed", "billing", "--config", "function.yaml"], "--config has no effect with --deployed"),
        (["--deployed", "billing", "--max-workers", "2"], "--max-workers has no effect with --deployed"),
        (["FILE", "--bootstrap", "127.0.0.1:1"], "2 replicas need a Streaming Controller"),
        (["FILE", "--sc", "nowhere"], "--sc: 'nowhere' is not HOST:PORT"),
        (["FILE", "--metrics", "nowhere"], "--metrics: 'nowhere' is not HOST:PORT"),
        (["FILE", "--replica", ""], "--replica: a replica needs a name"),
        (["FILE", "--seek-to", "middle"], "--seek-to"),
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


@pytest.mark.parametrize(
    ("variables", "words", "server"),
    [
        ({}, ["--sc", "127.0.0.1:1"], "the SC at 127.0.0.1:1 "),
        ({"TAILRACE_SC": "127.0.0.1:2"}, [], "the SC at 127.0.0.1:2 "),
        ({"TAILRACE_SC": "127.0.0.1:2"}, ["--sc", "127.0.0.1:1"], "the SC at 127.0.0.1:1 "),
        ({"TAILRACE_BOOTSTRAP": "127.0.0.1:3"}, ["--replicas", "1"], "the broker at 127.0.0.1:3 "),
        ({}, ["--replicas", "1", "--bootstrap", "127.0.0.1:4"], "the broker at 127.0.0.1:4 "),
        ({"TAILRACE_BOOTSTRAP": "127.0.0.1:3"}, ["--sc", "127.0.0.1:1"], "the SC at 127.0.0.1:1 "),
    ],
)
def test_a_server_that_is_away_is_named(
    variables: dict[str, str],
    words: list[str],
    server: str,
    function: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert main(["trigger", "run", function, *words]) == 3
    assert server in capsys.readouterr().err
