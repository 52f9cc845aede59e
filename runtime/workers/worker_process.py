"""A worker process from the side of the process that starts it.

A worker starts clean: it is a new program, not a fork. It is ended with all processes that it has started, and it never
outlives the process that started it: the system kills it then, and its watchdog sees the pipe close.
"""

import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

import trio

from .shared_page import SharedPage

Buffer = bytes | bytearray | memoryview

TO_WORKER_BYTES = 1 << 20
"""How many bytes may be on their way to a worker. With less, large messages wake both sides often."""
_RECEIVED_BYTES_MAX = 1 << 16
_PARTS_MAX = 512
"""How many parts one call of the system may send."""


class WorkerProcess:
    """A running worker, the pipes to and from it, and the page that it shares."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        pidfd: int,
        to_worker: int,
        from_worker: int,
        claims: int,
        page: SharedPage,
    ) -> None:
        self._process = process
        self._to_worker = to_worker
        self._from_worker = from_worker
        self._claims = claims
        self._pidfd = pidfd
        self.page = page

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, parts: Sequence[Buffer]) -> None:
        """Sends bytes. Raises BrokenPipeError if the worker has closed its end. If the call is cancelled, a part
        may have been sent, and then the worker cannot be used any longer."""
        await trio.lowlevel.checkpoint_if_cancelled()
        rest = [memoryview(part) for part in parts if len(part)]
        while rest:
            try:
                sent = os.writev(self._to_worker, rest[:_PARTS_MAX])
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._to_worker)
                continue
            done = 0
            while done < len(rest) and sent >= len(rest[done]):
                sent -= len(rest[done])
                done += 1
            del rest[:done]
            if sent:
                rest[0] = rest[0][sent:]

    async def receive(self) -> bytes:
        """Waits for bytes from the worker; none if it has closed its end."""
        while True:
            received = self.receive_now()
            if received is not None:
                return received
            await trio.lowlevel.wait_readable(self._from_worker)

    def receive_now(self) -> bytes | None:
        """Returns bytes that have arrived from the worker; None if there are none, and no bytes at the end."""
        try:
            return os.read(self._from_worker, _RECEIVED_BYTES_MAX)
        except BlockingIOError:
            return None

    def grant(self) -> None:
        """Lets the worker claim one more piece of work."""
        os.eventfd_write(self._claims, 1)

    def revoke(self) -> bool:
        """Takes a grant back. Returns False if the worker has claimed all of them."""
        try:
            os.eventfd_read(self._claims)
        except BlockingIOError:
            return False
        return True

    async def wait(self) -> int:
        """Waits for the end. Returns the exit status, or the negative number of the signal that killed the worker.

        Processes that the worker has started and left behind are killed.
        """
        if self._process.returncode is None:
            await trio.lowlevel.wait_readable(self._pidfd)
            self.kill()
        return self._process.wait()

    def kill(self) -> None:
        """Kills the worker and all processes in its process group."""
        if self._process.returncode is None:
            # The worker is in the group until it is waited for, so that the number means no other group.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Closes everything on this side. The worker must have ended."""
        for descriptor in (self._to_worker, self._from_worker, self._claims, self._pidfd):
            os.close(descriptor)
        self.page.close()


def start_worker(arguments: Sequence[str], environment: Mapping[str, str]) -> WorkerProcess:
    """Starts a program by its path, and hands it the descriptors that `WorkerSide` takes as its last argument.

    Call it in the thread that lives longest: when that thread ends, the system kills the worker. Raises OSError if the
    program does not exist or cannot start.

    The worker shares standard output and standard error of this process, and has no standard input. It runs in a
    session of its own, so that Ctrl-C reaches only this process.
    """
    with ExitStack() as on_failure, ExitStack() as always:
        page = SharedPage()
        on_failure.callback(page.close)
        claims = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        on_failure.callback(os.close, claims)
        its_input, to_worker = os.pipe()
        always.callback(os.close, its_input)
        on_failure.callback(os.close, to_worker)
        from_worker, its_output = os.pipe()
        always.callback(os.close, its_output)
        on_failure.callback(os.close, from_worker)
        with suppress(OSError):  # the system has a limit for all pipes of a user
            fcntl.fcntl(to_worker, fcntl.F_SETPIPE_SZ, TO_WORKER_BYTES)
        descriptors = (its_input, its_output, claims, page.descriptor)
        process = subprocess.Popen(
            [*arguments, ",".join(map(str, descriptors))],
            stdin=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
            pass_fds=descriptors,
        )
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            process.kill()
            process.wait()
            raise
        on_failure.pop_all()
    os.set_blocking(to_worker, False)
    os.set_blocking(from_worker, False)
    return WorkerProcess(process, pidfd, to_worker, from_worker, claims, page)
