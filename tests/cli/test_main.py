import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from terminals import on_terminal

from tailrace import __version__
from tailrace.cli.main import _COMMANDS, main, parse


def _exit_status(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_status("--version") == 0
    assert capsys.readouterr().out == f"tailrace {__version__}\n"


@pytest.mark.parametrize("words", [["log"], ["fly"], ["log", "fly"], ["up", "--fly"], ["--", "topic", "list"]])
def test_an_unknown_command_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_status(*words) == 2
    assert capsys.readouterr().err.startswith("usage: tailrace")


def test_an_unknown_argument_prints_the_usage_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_status("topic", "list", "--fly") == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: tailrace topic list ")
    assert said.endswith("tailrace topic list: error: unrecognized arguments: --fly\n")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_status("--help") == 0
    assert {"up", "log"} <= set(capsys.readouterr().out.split())
    assert _exit_status("log", "--help") == 0
    assert {"dump", "verify"} <= set(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "kind", ["spu", "spu-group", "topic", "partition", "replica", "segment", "group", "connection"]
)
def test_what_can_be_listed_can_be_shown(kind: str) -> None:
    topic = ["orders"] if kind == "segment" else []
    listed, shown = parse([kind, "list", *topic]), parse(["show", f"{kind}s", *topic])
    assert vars(listed) == vars(shown)


def test_each_command_has_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_status("up", "--help") == 0
    assert "--public HOST:PORT" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["up"], ["topic", "list"]])
def test_another_system_than_linux_is_refused_in_a_sentence(words: list[str]) -> None:
    """Hides what other systems lack, before the command imports anything that needs it."""
    script = f"import select; del select.epoll; from tailrace.cli.main import main; main({words})"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("tailrace: this system is not Linux") and ran.stderr.count("\n") == 1


def test_a_command_stopped_before_it_has_begun_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tailrace.cli.main.parse", interrupted)
    assert main(["topic", "list"]) == 130


def _run(words: list[str], stdout: IO[bytes] | int, environment: dict[str, str]) -> tuple[int, bytes]:
    others = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "tailrace", *words]
    ended = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=others | environment)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("words", "environment"),
    [(["partition", "states"], {}), (["partition", "states"], {"PYTHONUNBUFFERED": "1"}), (["--help"], {})],
)
def test_an_output_that_takes_no_more_is_one_sentence(words: list[str], environment: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        assert _run(words, full, environment) == (1, b"tailrace: standard output: No space left on device\n")


@pytest.mark.parametrize("environment", [{}, {"PYTHONUNBUFFERED": "1"}])
@pytest.mark.parametrize("words", [["partition", "states"], ["--help"]])
def test_a_closed_pipe_is_no_error(words: list[str], environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert _run(words, writing, environment) == (0, b"")
    finally:
        os.close(writing)


@pytest.mark.parametrize("words", [["--help"], ["log", "dump", "/nowhere.log"]])
@pytest.mark.parametrize("closed", ["1", "2", "0 1 2"])
def test_closed_standard_streams_do_not_matter(words: list[str], closed: str) -> None:
    closing = " ".join(f"{number}<&-" for number in closed.split())
    command = f'exec {closing}; "$@"; status=$?; exit $status'
    ended = subprocess.run(["sh", "-c", command, "sh", sys.executable, "-m", "tailrace", *words], capture_output=True)
    whole = subprocess.run([sys.executable, "-m", "tailrace", *words], capture_output=True)
    assert ended.returncode == whole.returncode
    assert ended.stdout == (b"" if "1" in closed else whole.stdout)
    assert ended.stderr == (b"" if "2" in closed else whole.stderr)


def test_a_file_is_not_taken_for_a_stream_that_was_closed(tmp_path: Path) -> None:
    command = 'exec 0<&- 1<&- 2<&-; "$@"'
    look = (
        f"import tailrace.cli.main as m; m.main(['partition', 'states']); open({str(tmp_path / 'log')!r}, 'w').fileno()"
    )
    wanted = f"{look} > 2 or exit(9)"
    assert subprocess.run(["sh", "-c", command, "sh", sys.executable, "-c", wanted]).returncode == 0


def test_a_terminal_gets_no_escapes_if_the_command_line_or_the_environment_says_so() -> None:
    bold = "import sys, tailrace.cli.main as m; m.main(sys.argv[1:]); from tailrace.cli.output.tables import table;"
    bold += "print(table(('NAME',), []))"
    words = ["-c", bold, "partition", "states"]
    assert "\x1b[" in on_terminal(words)[1]
    assert "\x1b[" not in on_terminal([*words, "--no-color"])[1]
    assert "\x1b[" not in on_terminal(words, {"NO_COLOR": "1"})[1]


def test_a_bare_command_prints_the_help_which_begins_with_what_newcomers_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _exit_status() == 0
    text = capsys.readouterr().out
    assert _exit_status("--help") == 0
    assert capsys.readouterr().out == text
    commands = [line.split()[0] for line in text.splitlines() if re.match("  [a-z]", line)]
    assert commands[:4] == ["up", "topic", "produce", "consume"]
    for name in ("An SPU", "The SC"):
        assert len([line for line in text.splitlines() if line.startswith(f"  {name} (")]) == 1
    assert set(commands) >= {command.split()[0] for command in _COMMANDS}


def test_a_group_alone_is_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_status("topic") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert _exit_status("topic", "--help") == 0
    assert capsys.readouterr().out == captured.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["topics"], "topic"),
        (["topics", "list"], "topic list"),
        (["list", "topics"], "topic list"),
        (["topic", "lst"], "topic list"),
        (["topic", "crate", "orders"], "topic create"),
        (["consum", "orders"], "consume"),
        (["brokers"], "spu list"),
        (["show", "topic"], "show topics"),
        (["trigger", "dead-letters", "shw", "0/1"], "trigger dead-letters show"),
        (["trigger", "dead-leters", "list"], "trigger dead-letters list"),
    ],
)
def test_an_unknown_command_is_told_the_one_that_was_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_status(*words) == 2
    assert f"did you mean `tailrace {meant}`?" in capsys.readouterr().err


def test_a_group_of_commands_may_lie_in_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_status("trigger", "--help") == 0
    assert "  dead-letters  List, show and replay" in capsys.readouterr().out
    assert _exit_status("trigger", "dead-letters") == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("usage: tailrace trigger dead-letters COMMAND")
    assert _exit_status("help", "trigger", "dead-letters") == 0
    assert capsys.readouterr().out == captured.err
    assert _exit_status("--help") == 0
    assert "dead-letters" not in capsys.readouterr().out


def test_help_can_be_asked_for_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_status("help", "topic", "create") == 0
    text = capsys.readouterr().out
    assert _exit_status("topic", "create", "--help") == 0
    assert capsys.readouterr().out == text


def test_no_color_may_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    parse(["--no-color", "topic", "list"])
    assert os.environ.pop("NO_COLOR") == "1"
