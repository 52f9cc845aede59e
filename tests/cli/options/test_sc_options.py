import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import trio
import yaml
from public_sc import public_sc, tailrace
from simulation.network import MemoryNetwork

from tailrace.cli.main import main
from tailrace.cli.options.sc_options import (
    Command,
    UsageError,
    objects_in,
    objects_of_file,
    only_given,
    pairs,
    show_documents,
    show_next,
    wait_seconds,
)
from tailrace.client.server_connection import UnreachableError
from tailrace.controller.objects.objects import Spu


def _json_lines(text: str) -> list[object]:
    return [json.loads(line) for line in text.splitlines()]


async def test_only_what_was_given_an_sc_commands_end_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert await tailrace(MemoryNetwork(), "spu", "list") == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tailrace spu list: the SC at 127.0.0.1:9003 does not answer: connection refused. ")


def test_a_whole_command_runs_by_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TAILRACE_SC", "127.0.0.1:1")  # nobody listens on a port that only root may have
    assert main(["partition", "list"]) == 3
    assert "the SC at 127.0.0.1:1 does not answer" in capsys.readouterr().err


async def test_the_sc_is_a_flag_or_a_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TAILRACE_SC", "somewhere:1234")
    assert await tailrace(MemoryNetwork(), "topic", "list") == 3
    assert "the SC at somewhere:1234 does not answer" in capsys.readouterr().err
    assert await tailrace(MemoryNetwork(), "topic", "list", "--sc", "[::1]:5") == 3
    assert "the SC at [::1]:5 does not answer" in capsys.readouterr().err
    assert await tailrace(MemoryNetwork(), "topic", "list", "--sc", "one:1, two:2") == 3
    assert "none of the SCs at one:1, two:2 answers" in capsys.readouterr().err
    assert await tailrace(MemoryNetwork(), "topic", "list", "--sc", "here") == 2
    assert capsys.readouterr().err == "tailrace topic list: --sc: 'here' is not HOST:PORT with a port from 1 to 65535\n"
    monkeypatch.setenv("TAILRACE_SC", "here:0")
    assert await tailrace(MemoryNetwork(), "topic", "list") == 2
    assert capsys.readouterr().err.startswith("tailrace topic list: TAILRACE_SC: 'here:0' is not HOST:PORT")


@pytest.mark.parametrize("words", ["topic describe", "topic delete", "partition list", "spu describe"])
async def test_a_name_that_is_no_text_is_refused_before_anybody_is_asked(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc() as sc:
        assert await tailrace(sc.network, *words.split(), "\udcff") == 2
    assert capsys.readouterr().err == f"tailrace {words}: '\\udcff' is not Unicode\n"


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_are_shown_as_they_are(
    output: str, read: Callable[[str], object], capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [{"name": "ä\x1b[2J", "rows": {0: [0, 1]}}]
    show_documents(argparse.Namespace(output=output), documents, lambda: "never")
    shown = capsys.readouterr().out
    assert shown.isascii()
    assert "\x1b" not in shown
    assert json.loads(json.dumps(read(shown))) == json.loads(json.dumps(documents))


async def test_what_another_version_answers_is_not_guessed_at() -> None:
    with pytest.raises(UnreachableError, match="the SC sent an object that this version cannot read: unknown field"):
        objects_in("spu", [{"spuId": 5, "new": 1}])
    (found,) = objects_in("spu", [{"spuId": 5}])
    assert isinstance(found, Spu)


def test_ctrl_c_is_one_also_while_several_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object) -> int:
        async with trio.open_nursery():
            raise KeyboardInterrupt

    monkeypatch.setattr(Command, "execute", interrupted)
    assert main(["topic", "list"]) == 130


@pytest.mark.parametrize(("output", "read"), [("json", _json_lines), ("yaml", yaml.safe_load_all)])
def test_programs_read_one_document_after_the_other(
    output: str, read: Callable[[str], Iterable[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        show_next(argparse.Namespace(output=output), [{"number": number}], lambda: "never")
    assert list(read(capsys.readouterr().out)) == [[{"number": 0}], [{"number": 1}]]


def test_pairs() -> None:
    assert pairs(["a=b=c", " d = "], "--config") == {"a": "b=c", "d": ""}
    for given in (["a"], ["=b"], ["a=1", "a=2"]):
        with pytest.raises(UsageError, match=r"^--config "):
            pairs(given, "--config")


def test_a_file_may_have_its_documents_in_a_list(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text("- {a: 1}\n- {b: 2}\n---\nc: 3\n---\n- {d: 4}\n- 5\n")
    assert objects_of_file(str(path)) == [{"a": 1}, {"b": 2}, {"c": 3}, [{"d": 4}, 5]]
    path.write_text("[]")
    assert objects_of_file(str(path)) == []


def test_only_what_was_given() -> None:
    assert only_given({"a": 0, "b": None, "c": ""}) == {"a": 0, "c": ""}


@pytest.mark.parametrize("text", ["-1", "x", "nan", "inf", "3601"])
def test_seconds_to_wait_have_a_bound(text: str) -> None:
    assert wait_seconds("0.5") == 0.5
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of seconds from 0 to 3600"):
        wait_seconds(text)


async def test_every_command_lists_json_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        for group in ("spu", "spu-group", "topic", "partition", "connection"):
            assert await tailrace(sc.network, group, "list", "--output", "json") == 0
            assert json.loads(capsys.readouterr().out) == []
