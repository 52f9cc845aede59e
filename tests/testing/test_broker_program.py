import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def _start(directory: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tailrace.testing.broker_program"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(directory)},
    )


@pytest.mark.parametrize("how", ["the input ends", "SIGTERM"])
def test_the_program_ends_and_removes_its_data(tmp_path: Path, how: str) -> None:
    with _start(tmp_path) as program:
        assert program.stdin is not None and program.stdout is not None
        assert program.stdout.readline().startswith(b"ready bootstrap=127.0.0.1:")
        (data,) = tmp_path.iterdir()
        assert {each.name for each in data.iterdir()} == {"sc", "spu-1"}
        if how == "SIGTERM":
            program.send_signal(signal.SIGTERM)
        else:
            program.stdin.close()
        assert program.wait(30) == 0
    assert not list(tmp_path.iterdir())


def test_the_program_removes_its_data_if_it_is_stopped_at_once(tmp_path: Path) -> None:
    with _start(tmp_path) as program:
        program.send_signal(signal.SIGTERM)
        program.wait(30)
    assert not list(tmp_path.iterdir())
