"""A command that runs a job on Spark, as a process that a test can kill together with all that it has started."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

RUN_SECONDS_MAX = 300
"""How long a run may take, with the start of a JVM on a busy machine."""
POLL_SECONDS = 0.004
"""How often the files are looked at. Some moments of a commit last only some milliseconds."""
EXECUTOR = "CoarseGrainedExecutorBackend"
LOCAL = ("--master", "local[2]")
SEPARATE = ("--master", "local-cluster[2,1,512]")
"""Executors that are processes of their own, each with 512 MB."""
SUBMIT_ARGUMENTS = "--conf spark.executor.memory=512m --conf spark.ui.enabled=false pyspark-shell"
ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DRIVER_MEMORY": "512m",
    "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS,
}


class RunningJob:
    """One run of a command. All of its processes end with it. What runs of one name print goes to one file."""

    def __init__(
        self, directory: Path, name: str, command: Sequence[str], environment: Mapping[str, str] = ENVIRONMENT
    ) -> None:
        self._errors = directory / f"{name}.errors"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=os.environ | environment,
                cwd=directory,
                start_new_session=True,
            )
        self._others: dict[int, psutil.Process] = {}

    def watch(self) -> list[psutil.Process]:
        """Returns the processes that the driver has started, and remembers them."""
        with suppress(psutil.NoSuchProcess):
            for each in psutil.Process(self._process.pid).children(recursive=True):
                self._others.setdefault(each.pid, each)
        return [each for each in self._others.values() if each.is_running()]

    def executors(self) -> list[psutil.Process]:
        """Returns the JVMs of the executors."""
        return [each for each in self.watch() if EXECUTOR in _command_line(each)]

    def python_workers(self) -> list[psutil.Process]:
        """Returns the processes that run the tasks."""
        return [each for each in self.watch() if "pyspark.daemon" in _command_line(each)]

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, condition: Callable[[], object], what: str) -> bool:
        """Waits until the condition holds or the run has ended. Returns whether it still runs."""
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while self.is_running():
            if condition():
                return True
            assert time.monotonic() < deadline, f"not within {RUN_SECONDS_MAX} s: {what}\n{self.said()}"
            time.sleep(POLL_SECONDS)
        return False

    def wait(self) -> int:
        """Waits until the run ends, and returns its exit status."""
        return self._process.wait(RUN_SECONDS_MAX)

    def kill_driver(self) -> None:
        """Kills the driver with SIGKILL. Its JVM, and tasks that run, notice that later or not at all."""
        self.watch()
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Kills all processes of the run that are left, and waits for their end."""
        self.watch()
        if self.is_running():
            self._process.kill()
            self._process.wait()
        left = [each for each in self._others.values() if each.is_running()]
        _, alive = psutil.wait_procs(left, timeout=20)
        for each in alive:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(alive, timeout=20)

    def wait_until_said(self, text: str, times: int = 1) -> None:
        """Waits until the run has printed a text so many times, over all runs."""
        wanted = self._errors.read_text().count(text) + times
        assert self.wait_for(lambda: self._errors.read_text().count(text) >= wanted, text), self.said()

    def said(self) -> str:
        """Returns the last lines that the runs have printed."""
        return "\n".join(self._errors.read_text().splitlines()[-40:])


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
