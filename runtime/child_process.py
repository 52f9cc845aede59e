"""Processes that this one starts, and that do not outlive it.

A child holds the read end of a pipe as its standard input, and is expected to stop when that ends
(`process.end_of_input`). The write end is this process's alone, and goes with it, also at `kill -9`: so no child is
left behind that holds ports and data. A signal on the death of the parent would do less: it is bound to the thread
that started the child, and is missed if the parent dies while the child starts.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

import trio


class ChildProcess:
    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._received = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    async def read_line(self) -> str | None:
        """The next whole line that it says on standard output; None at the end of that."""
        assert self._process.stdout is not None
        while b"\n" not in self._received:
            received = await self._process.stdout.receive_some()
            if not received:
                return None
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace")

    async def wait(self) -> int:
        """Its exit status; the negative number of the signal that killed it."""
        return await self._process.wait()

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    async def close(self) -> None:
        """Lets go of its input and output; it must have ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.aclose()
        await self._process.stdout.aclose()


async def start_child(arguments: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
    """Starts a program by its path, never through a shell; OSError when there is no such program, or no room for it.

    It shares our standard error. It is in a session of its own, so that Ctrl-C reaches us alone, and we decide when it
    stops.
    """
    process = await trio.lowlevel.open_process(
        list(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(environment),
        start_new_session=True,
    )
    return ChildProcess(process)


def status_text(status: int) -> str:
    """An exit status as a person says it."""
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def environment_without(prefix: str) -> dict[str, str]:
    """Ours, but for the variables that begin so."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefix)}
