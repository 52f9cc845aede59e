"""`tailrace audit show` shows the events that a person asks for."""

import json
from pathlib import Path

import pytest
from audit_log_files import write_log

from tailrace.cli.main import main


def _shown(capsys: pytest.CaptureFixture[str], directory: Path, *words: str) -> list[str]:
    assert main(["audit", "show", str(directory), *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_events_are_shown_in_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path)
    assert _shown(capsys, tmp_path) == [
        "2023-11-14T22:13:20.000Z  allowed    User:alice  192.0.2.1  PLAIN",
        "2023-11-14T22:13:20.001Z  denied     User:bob  192.0.2.2  WRITE  TOPIC:orders  (no rule allows it)  3 times",
        "2023-11-14T22:13:20.002Z  done       User:alice  CreateTopics  TOPIC:bills",
    ]


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (("--outcome", "denied"), [5]),
        (("--event", "change"), [7]),
        (("--principal", "User:alice"), [3, 7]),
        (("--resource", "bill"), [7]),
        (("--last", "2"), [5, 7]),
        (("--principal", "User:alice", "--last", "1"), [7]),
        (("--principal", "User:eve"), []),
    ],
)
def test_events_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], places: list[int]
) -> None:
    write_log(tmp_path)
    assert [json.loads(line)["n"] for line in _shown(capsys, tmp_path, *words, "-o", "json")] == places


def test_nothing_to_show_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "show", str(tmp_path)]) == 2
    write_log(tmp_path)
    assert main(["audit", "show", str(tmp_path), "--last", "0"]) == 2
    err = capsys.readouterr().err
    assert "there is no audit log in" in err
    assert "--last 0: expected a number of at least 1" in err
