"""Tests completions in real shells, as far as they are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tailrace.cli.main import _COMMANDS, main
from tailrace.cli.shell_completion import SHELLS


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "tailrace.bash"
    with pytest.MonkeyPatch.context() as patching, path.open("w") as output:
        patching.setattr("sys.stdout", output)
        assert main(["completion", "bash"]) == 0
    return path


def _completed(script: Path, *words: str) -> list[str]:
    """Returns what bash offers for the last word."""
    line = " ".join(words)
    ask = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}';"
        f"_shtab_tailrace tailrace '{words[-1]}' '{words[-2]}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_choices(bash_script: Path) -> None:
    assert "consume" in _completed(bash_script, "tailrace", "con")
    assert _completed(bash_script, "tailrace", "topic", "cr") == ["create"]
    assert _completed(bash_script, "tailrace", "topic", "create", "--part") == ["--partitions"]
    assert _completed(bash_script, "tailrace", "topic", "list", "--output", "ya") == ["yaml"]


@pytest.mark.parametrize("shell", [each for each in SHELLS if each != "bash"])
def test_other_shells_get_a_script_too(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    if shell != "tcsh":  # its script is short, and asks for less
        assert all(command.split()[-1] in script for command in _COMMANDS)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_zsh_sees_no_colon_in_the_name_of_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert ":HOST PORT HOST PORT:" in script
    assert "HOST:PORT" not in script


def test_an_unknown_shell_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "cmd"])
    assert ended.value.code == 2
