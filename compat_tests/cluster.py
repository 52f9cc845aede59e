"""Runs a broker as a process that a test can stop, kill and restart.

The tests are a black box: they start `tailrace up` as a user does, learn its address from the ready line, and import
nothing from Tailrace. `peer.apache_kafka.ApacheKafka` has the same interface, so that every test can also run against
Apache Kafka.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

READY_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
READY_LINE = re.compile(r"^ready bootstrap=(\S+) sc=(\S+) data=(.+) in (\d+) ms$", re.MULTILINE)
FREE_PORTS = tuple(
    word for option in ("--sc", "--sc-private", "--private", "--metrics") for word in (option, "127.0.0.1:0")
)
"""Options that let the system choose free ports, so that tests can run side by side. A later option replaces one."""


class Broker(Protocol):
    """A broker process with its own data directory. It keeps its address after the first start."""

    bootstrap: str
    data: Path

    @property
    def pid(self) -> int: ...
    def start(self) -> None: ...
    def stop(self) -> int: ...
    def kill(self) -> None: ...
    def start_second_process(self) -> tuple[int, str]: ...


class Server:
    """A command that prints a ready line when it serves, and runs until it is stopped.

    Its output goes to files, so that a command that prints a lot never waits for a reader.
    """

    def __init__(self, directory: Path, name: str, ready_line: re.Pattern[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._ready_line = ready_line
        self._output = directory / f"{name}.output"
        self._errors = directory / f"{name}.errors"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self._name} has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether the command has printed its ready line since it was launched."""
        return self._output.exists() and self._ready_line.search(self._output.read_text()) is not None

    def launch(self, command: list[str]) -> None:
        with self._output.open("wb") as output, self._errors.open("ab") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)

    def wait_until_ready(self) -> re.Match[str]:
        assert self._process is not None, f"{self._name} has not been started"
        deadline = time.monotonic() + READY_SECONDS_MAX
        while (ready := self._ready_line.search(self._output.read_text())) is None:
            if self._process.poll() is not None:
                raise AssertionError(f"{self._name} ended with {self._process.returncode}:\n{self.last_output()}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"{self._name} was not ready in {READY_SECONDS_MAX} s:\n{self.last_output()}")
            time.sleep(0.002)
        return ready

    def start(self, command: list[str]) -> re.Match[str]:
        self.launch(command)
        return self.wait_until_ready()

    def stop(self) -> int:
        """Asks the command to shut down cleanly, and returns its exit status."""
        return end(self._process, signal.SIGTERM)

    def kill(self) -> None:
        end(self._process, signal.SIGKILL)

    def signal(self, which: signal.Signals) -> None:
        os.kill(self.pid, which)

    def wait(self) -> int:
        """Waits until the command ends, and returns its exit status."""
        assert self._process is not None, f"{self._name} has not been started"
        return self._process.wait(STOP_SECONDS_MAX)

    def errors(self) -> str:
        """Returns everything that the command has written to standard error, over all of its starts."""
        return self._errors.read_text() if self._errors.exists() else ""

    def last_output(self) -> str:
        return "\n".join((self._output.read_text() + self.errors()).splitlines()[-40:])


class Tailrace:
    """`tailrace up` with one SPU; `settings` are Kafka's broker configs."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.bootstrap = "127.0.0.1:0"
        self.sc = ""
        """The public address of the Streaming Controller, once it has started."""
        self.data = directory / "data"
        self._server = Server(directory, "up", READY_LINE)
        self._settings = [f"--set={name}={value}" for name, value in (settings or {}).items()]

    @property
    def pid(self) -> int:
        return self._server.pid

    def command(self) -> list[str]:
        where = ("--data", str(self.data), "--public", self.bootstrap)
        return tailrace("up", *where, *FREE_PORTS, *self._settings)

    def start(self) -> None:
        self.bootstrap, self.sc = self._server.start(self.command()).group(1, 2)

    def stop(self) -> int:
        """Asks the broker to shut down cleanly, and returns its exit status."""
        return self._server.stop()

    def kill(self) -> None:
        self._server.kill()

    def start_second_process(self) -> tuple[int, str]:
        """Tries to start another process on the same data, and returns its exit status and output."""
        second = Tailrace(self.data.parent)
        return run_to_end(second.command())

    def last_output(self) -> str:
        return self._server.last_output()


def tailrace(*words: str) -> list[str]:
    """Returns the command line of `tailrace` with these arguments."""
    return [str(Path(sys.executable).with_name("tailrace")), *words]


def end(process: subprocess.Popen[bytes] | None, how: signal.Signals) -> int:
    """Signals the process unless it has ended already, waits for its end, and returns its exit status."""
    if process is None:
        return 0
    if process.poll() is None:
        process.send_signal(how)
    try:
        return process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"the broker did not end in {STOP_SECONDS_MAX} s after {how.name}") from None


def tailrace_output(*words: str, standard_input: bytes = b"") -> str:
    """Runs `tailrace` with `standard_input`, and returns its JSON output; the command must succeed."""
    command = tailrace(*words, "--output", "json")
    done = subprocess.run(command, input=standard_input, capture_output=True, timeout=READY_SECONDS_MAX)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def run_to_end(command: list[str]) -> tuple[int, str]:
    """Runs a command that ends by itself, and returns its exit status and output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS_MAX)
    return done.returncode, done.stdout + done.stderr
