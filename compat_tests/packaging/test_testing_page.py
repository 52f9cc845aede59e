"""Every example of docs/testing.md runs as it stands, with stock clients, and a killed pytest leaves nothing."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
PLUGINS = ("tailrace.testing.pytest_plugin", "xdist")
RUN_SECONDS_MAX = 100
END_SECONDS_MAX = 30
LEFT = "tailrace-*"

_EXAMPLE = re.compile(r"`(\w+\.py)`[^`]*:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

HANGS = """
import pathlib
import time

def test_hangs(tailrace_broker):
    part = pathlib.Path("bootstrap.part")
    part.write_text(tailrace_broker.bootstrap)
    part.rename("bootstrap")
    time.sleep(1000)
"""


def _pytest(directory: Path, *words: str) -> list[str]:
    """Returns the command; it loads the plug-in by its module, whether or not it is installed."""
    plugins = [word for name in PLUGINS for word in ("-p", name)]
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugins, f"--rootdir={directory}", *words]


def _environment(temporary: Path) -> dict[str, str]:
    temporary.mkdir()
    return os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TMPDIR": str(temporary)}


def test_the_examples_pass_on_two_workers(tmp_path: Path) -> None:
    examples = dict(_EXAMPLE.findall(PAGE.read_text()))
    assert len(examples) == 9
    for name, text in examples.items():
        (tmp_path / name).write_text(text)
    environment = _environment(tmp_path / "temporary")
    done = subprocess.run(
        _pytest(tmp_path, "-n", "2"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 passed" in done.stdout
    assert not list((tmp_path / "temporary").glob(LEFT))


def test_a_killed_pytest_leaves_neither_a_broker_nor_data(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGS)
    temporary = tmp_path / "temporary"
    running = subprocess.Popen(
        _pytest(tmp_path),
        cwd=tmp_path,
        env=_environment(temporary),
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until((tmp_path / "bootstrap").exists, RUN_SECONDS_MAX, "the test runs")
        host, _, port = (tmp_path / "bootstrap").read_text().rpartition(":")
        assert list(temporary.glob(LEFT))
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    wait_until(lambda: not list(temporary.glob(LEFT)), END_SECONDS_MAX, "the data is removed")
    with socket.socket() as connection:
        assert connection.connect_ex((host, int(port))) != 0
