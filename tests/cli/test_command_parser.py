import os

import pytest

from tailrace.cli.command_parser import CommandParser


def _parser() -> CommandParser:
    parser = CommandParser("tailrace topic create", "Create topics.", "topic create")
    parser.add_argument("name")
    parser.add_argument("--partitions")
    parser.add_argument("--replication-factor")
    parser.add_last()
    return parser


@pytest.mark.parametrize(
    ("word", "meant"),
    [("--partitons=6", "--partitions"), ("--replication-facter", "--replication-factor"), ("--fly", None)],
)
def test_a_wrong_option_is_told_the_right_one(word: str, meant: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _parser().parse_all(["orders", word])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"unrecognized arguments: {word}" in said
    assert ("did you mean" in said) == (meant is not None)
    assert meant is None or said.endswith(f"; did you mean {meant}?\n")


def test_what_is_right_is_parsed() -> None:
    assert vars(_parser().parse_all(["orders", "--partitions", "6"])) == {
        "name": "orders",
        "partitions": "6",
        "replication_factor": None,
    }


def test_help_has_the_examples_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _parser().parse_all(["--help"])
    assert ended.value.code == 0
    assert "examples:\n  tailrace topic create orders\n" in capsys.readouterr().out


def test_no_color_is_for_everything_that_the_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    _parser().parse_all(["orders", "--no-color"])
    assert os.environ.pop("NO_COLOR") == "1"
