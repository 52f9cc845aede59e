"""Child processes that never outlive this process.

A child holds the read end of a pipe as its standard input, and is expected to stop at the end of that stream
(`process.end_of_input`). Only this process holds the write end, which closes with it, even after `kill -9`. So no
orphan keeps ports and data occupied. A signal on the death of the parent would do less: it depends on the thread that
started the child, and is missed if the parent dies while the child starts.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

import trio


class ChildProcess:
    """A running child process and its standard output."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._received = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    async def read_line(self) -> str | None:
        """Returns the next whole line of its standard output; None at the end."""
        assert self._process.stdout is not None
        while b"\n" not in self._received:
            received = await self._process.stdout.receive_some()
            if not received:
                return None
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace")

    async def read_some(self) -> bytes:
        """Returns the next bytes of its output; none at the end."""
        assert self._process.stdout is not None
        if self._received:
            received, self._received = self._received, b""
            return received
        return bytes(await self._process.stdout.receive_some())

    async def wait(self) -> int:
        """Waits for its end. Returns its exit status, or the negative number of the signal that killed it."""
        return await self._process.wait()

    def ask_to_stop(self) -> None:
        """Sends the signal that asks for a clean stop."""
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    async def close(self) -> None:
        """Closes its input and output. It must have ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.aclose()
        await self._process.stdout.aclose()


async def start_child(
    arguments: Sequence[str], environment: Mapping[str, str], *, joins_errors: bool = False
) -> ChildProcess:
    """Starts a program by its path, never through a shell.

    Raises OSError if the program does not exist or cannot start.

    The child shares the standard error of this process, unless `joins_errors` makes it a part of the child's output. It
    runs in a session of its own, so that Ctrl-C reaches only this process, which decides when the child stops.
    """
    process = await trio.lowlevel.open_process(
        list(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if joins_errors else None,
        env=dict(environment),
        start_new_session=True,
    )
    return ChildProcess(process)


def status_text(status: int) -> str:
    """Formats an exit status for people."""
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def environment_without(prefix: str) -> dict[str, str]:
    """Returns the environment of this process without the variables whose names begin with `prefix`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefix)}
