"""Commands that run on a Spark with executors of their own, all in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cluster import STOP_SECONDS_MAX

PROGRAM = Path(__file__).with_name("cluster_jobs.py")


class ClusterCommands:
    """A process that runs commands one after the other. It starts with the first one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def run(self, *words: str) -> tuple[int, str, str]:
        """Runs `tailrace` with these words. Returns the exit status, the output and the errors."""
        if self._process is None:
            with (self._directory / "errors").open("wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, str(PROGRAM)],
                    cwd=self._directory,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, (self._directory / "errors").read_text()[-4000:]
        status, output, errors_text = json.loads(line)
        return status, output, errors_text

    def stop(self) -> None:
        """Ends the process, and its Spark."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
