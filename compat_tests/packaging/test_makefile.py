"""`make up` installs only what the broker needs; the targets for development install the rest."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START_SECONDS_MAX = 30


def _commands(directory: Path, target: str) -> str:
    """Returns the commands that make would run for a target in a directory in which nothing is installed."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, directory)
    # When make runs the tests, it says so in these variables, and a make below it prints the directories it enters.
    surroundings = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    dry = subprocess.run(
        ["make", "--dry-run", target],
        cwd=directory,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=START_SECONDS_MAX,
    )
    assert dry.returncode == 0, dry.stderr
    return dry.stdout


def test_make_up_installs_only_what_the_broker_needs_and_says_so(tmp_path: Path) -> None:
    commands = _commands(tmp_path, "up")
    assert "--editable ." in commands
    assert "--group" not in commands and "import-linter" not in commands
    assert "Installing Tailrace" in commands
    install = next(line for line in commands.splitlines() if "pip install" in line)
    assert "--quiet" not in install
    assert commands.splitlines()[-1].endswith("tailrace up")


@pytest.mark.parametrize("target", ["check", "test"])
def test_the_targets_for_development_install_their_tools(tmp_path: Path, target: str) -> None:
    commands = _commands(tmp_path, target)
    assert "--editable ." in commands
    assert "--group dev --group clients" in commands
