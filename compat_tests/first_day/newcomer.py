"""A newcomer: an empty home, a fresh copy of the sources, and a shell without development tools.

The shell runs in a network of its own, so that the default ports are free even if other programs on this machine use
them. If the machine cannot make such a network, the shell uses the machine's own network.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from containers.namespaces import Machine, NamespacesMissingError

ROOT = Path(__file__).parents[2]
NOT_COPIED = (".git", ".venv", "*_cache", ".hypothesis", "__pycache__", "build", "dist", "*.egg-info")
RUN_SECONDS_MAX = 120
INSTALL_SECONDS_MAX = 600
STOP_SECONDS_MAX = 30
KEPT = ("PIP_", "SSL_", "HTTP", "NO_PROXY", "http", "no_proxy")
"""The beginnings of variables that say how this machine reaches a package index."""


class Done:
    """What a command has printed, and its exit status."""

    def __init__(self, command: str, status: int, output: str, errors: str) -> None:
        self.command = command
        self.status = status
        self.output = output
        self.errors = errors

    def __str__(self) -> str:
        return f"$ {self.command}\n{self.output}{self.errors}(exit status {self.status})"


class Running:
    """A command that runs in its own terminal."""

    def __init__(self, command: str, process: "subprocess.Popen[bytes]", output: Path, errors: Path) -> None:
        self.command = command
        self._process = process
        self._output = output
        self._errors = errors

    @property
    def output(self) -> str:
        return self._output.read_text()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def wait_for(self, *texts: str, seconds: float = RUN_SECONDS_MAX) -> str:
        """Waits until the command has printed a whole line with one of the texts, and returns the line."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self._process.poll() is not None
            lines = [
                line
                for line in (self.output + self.errors).splitlines(keepends=True)
                if any(text in line for text in texts)
            ]
            if lines and lines[0].endswith("\n"):
                return lines[0].strip()
            assert not ended, f"{self.done()}\nended before it printed {texts}"
            assert time.monotonic() < deadline, f"{self.done()}\nhas not printed {texts} in {seconds:g} s"
            time.sleep(0.02)

    def interrupt(self) -> Done:
        """Presses Ctrl-C, unless the command has ended by itself, and waits for the end."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        return self.wait()

    def wait(self, seconds: float = STOP_SECONDS_MAX) -> Done:
        """Waits until the command has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.done()}\nhas not ended in {seconds:g} s") from None
        return self.done()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def done(self) -> Done:
        status = self._process.poll()
        return Done(self.command, -1 if status is None else status, self.output, self.errors)


class Newcomer:
    """The home, the copy and the network; the end of the `with` block ends all commands."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.sources = directory / "tailrace"
        self._directory = directory
        self._ends = ExitStack()
        self._inside: Callable[[list[str]], list[str]] = lambda command: command
        self._terminals = 0

    def __enter__(self) -> "Newcomer":
        self.home.mkdir()
        shutil.copytree(ROOT, self.sources, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        try:
            host = self._ends.enter_context(Machine(self._directory)).host
            self._inside = lambda command: host.inside(command)
        except NamespacesMissingError as error:
            print(f"no network of its own ({error}): the default ports must be free")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def install(self, command: str) -> Done:
        """Runs a command that loads packages, so it uses the network of the machine."""
        return self._finished(["bash", "-c", f"{self._activation()}{command}"], command, INSTALL_SECONDS_MAX)

    def run(self, command: str, *, status: int | None = 0, given: str = "", **environment: str) -> Done:
        """Runs a command in the shell, and checks its exit status, unless `status` is None."""
        script = ["bash", "-c", f"{self._activation()}{command}"]
        done = self._finished(self._inside(script), command, RUN_SECONDS_MAX, given, environment)
        assert status is None or done.status == status, f"{done}\nexpected exit status {status}"
        assert "Traceback" not in done.errors, str(done)
        return done

    def send(self, address: str, data: bytes) -> str:
        """Sends bytes to a port, as a client of another protocol does, and returns the response."""
        host, _, port = address.rpartition(":")
        program = (
            f"import socket; s = socket.create_connection(({host!r}, {port})); s.sendall({data!r}); "
            "print(s.recv(1000).decode())"
        )
        return self.run(f"python -c {shlex.quote(program)}").output

    def start(self, command: str, *, given: Path | None = None, **environment: str) -> Running:
        """Runs a command in another terminal, until the end of the `with` block."""
        self._terminals += 1
        output, errors = (self._directory / f"terminal-{self._terminals}.{name}" for name in ("output", "errors"))
        with output.open("wb") as to_output, errors.open("wb") as to_errors:
            process = subprocess.Popen(
                self._inside(["bash", "-c", f"{self._activation()}exec {command}"]),
                stdin=subprocess.DEVNULL if given is None else given.open("rb"),
                stdout=to_output,
                stderr=to_errors,
                cwd=self.sources,
                env=self._environment() | environment,
                start_new_session=True,
            )
        running = Running(command, process, output, errors)
        self._ends.callback(running.kill)
        return running

    def _finished(
        self,
        command: list[str],
        shown: str,
        seconds: float,
        given: str = "",
        environment: dict[str, str] | None = None,
    ) -> Done:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            cwd=self.sources,
            env=self._environment() | (environment or {}),
            timeout=seconds,
        )
        return Done(shown, done.returncode, done.stdout, done.stderr)

    def _activation(self) -> str:
        # The working directory may change when the shell enters the network.
        return f"cd {shlex.quote(str(self.sources))}; [ -e .venv/bin/activate ] && source .venv/bin/activate; "

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        return kept | {
            "HOME": str(self.home),
            "PATH": f"{Path(sys.base_prefix, 'bin')}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
