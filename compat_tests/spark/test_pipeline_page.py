"""Does what docs/pipeline.md says: saves its programs, and runs every program and command in the order of the page."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import READY_LINE, Server, tailrace
from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
UP = "tailrace up "
FREE = ("--public", "127.0.0.1:0", "--sc", "127.0.0.1:0", "--sc-private", "127.0.0.1:0", "--private", "127.0.0.1:0")
SECONDS_MAX = 60
USES_SPARK = ("tailrace pipeline ", "tailrace trigger backfill ", "tailrace trigger run ")
"""Commands that run in this process, because each JVM takes ten seconds to start."""


class Reader:
    """A person who follows the page in a directory of their own."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def write(self, text: str) -> Path:
        """Saves a program under the name in its first line."""
        path = Path(text.partition("\n")[0].removeprefix("# "))
        path.write_text(self.localized(text))
        return path

    def localized(self, program: str) -> str:
        """Returns the program for this cluster and this directory, because the JVM of the tests has another one."""
        return program.replace('"127.0.0.1:9092"', f'"{self._bootstrap}"').replace('"./', f'"{Path.cwd()}/')

    def run(self, command: str) -> str:
        """Runs a command, which must succeed, and returns what it prints."""
        if command.startswith(USES_SPARK):
            status, output = _in_this_process(shlex.split(os.path.expandvars(command)))
        else:
            done = subprocess.run(
                ["bash", "-ec", command], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
            )
            status, output = done.returncode, done.stdout + done.stderr
        assert status == 0 and "Traceback" not in output, f"$ {command}\n{output}"
        return output


def _in_this_process(words: list[str]) -> tuple[int, str]:
    from tailrace.cli.main import main

    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        try:
            status = main(words[1:])
        except SystemExit as end:
            status = int(end.code or 0)
    return status, output.getvalue()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PWD", str(tmp_path / "work"))
    (command,) = re.findall(rf"^{UP}.*--data.*$", PAGE, re.MULTILINE)
    up = Server(tmp_path / "up", "up", READY_LINE)
    ready = up.start(tailrace(*shlex.split(command)[1:], "--metrics", "off", *FREE))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TAILRACE_SC", ready[2])
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", ready[1])
    # Commands stop the session that they have opened. Here it belongs to all tests.
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    try:
        yield Reader(ready[1])
        assert up.stop() == 0, up.last_output()
    finally:
        up.kill()


def test_every_program_and_command_of_the_page_does_what_it_says(spark_session: SparkSession, reader: Reader) -> None:
    printed: dict[str, str] = {}
    for block in BLOCK.finditer(PAGE):
        text = block["text"]
        if block["language"] == "python" and text.startswith("# "):
            path = reader.write(text)
            if "getOrCreate()" in text:
                printed[path.name] = _printed(lambda path=path: runpy.run_path(str(path)))
        elif block["language"] == "python":
            names: dict[str, object] = {"spark": spark_session}
            line = PAGE[: block.start("text")].count("\n")
            # Empty lines at the start make a traceback name the line of the page.
            code = compile("\n" * line + reader.localized(text), "pipeline.md", "exec")
            printed[text] = _printed(lambda code=code, names=names: exec(code, names))
            if "attachment" in names:
                names["attachment"].stop()  # type: ignore[attr-defined]
        elif block["language"] == "sh":
            for command in text.splitlines():
                if not command.startswith(UP) and command not in printed:
                    printed[command] = reader.run(command)
    for start, text in EXPECTED:
        outputs = [output for what, output in printed.items() if what.startswith(start)]
        assert any(text in output for output in outputs), (start, text, outputs)


def _printed(call: Callable[[], object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        call()
    return output.getvalue()


EXPECTED = (
    ("totals.py", "5000"),
    ("tailrace group describe spark-totals", "spark-totals"),
    ("tailrace pipeline audit ./data", "ok: "),
    ("tailrace pipeline archive verify ./archive", "proven: the archive has 5000 records of 4 partitions exactly once"),
    ("tailrace pipeline stats --archive ./large-orders", "large-orders"),
    ("tailrace trigger run large.py", "events                5 000"),
    ("tailrace pipeline verify-replay --map ./orders-map", "orders-again has each of 5000 records once"),
)
"""How a program or command begins, and a text that it must print."""
