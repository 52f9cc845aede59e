"""What a worker process has of the process that started it: pipes, claims and the shared page. It does not use Trio."""

import ctypes
import os
import select
import signal
from collections.abc import Sequence

from .shared_page import SharedPage

Buffer = bytes | bytearray | memoryview

_SET_DEATH_SIGNAL = 1
"""The number of PR_SET_PDEATHSIG."""
_RECEIVED_BYTES_MAX = 1 << 20
_PARTS_MAX = 512


class EndOfWorkError(Exception):
    """The process that started this one has closed the pipe, or has ended."""


class WorkerSide:
    """The pipes, claims and shared page of this worker process."""

    def __init__(self, descriptors: str) -> None:
        """Takes the descriptors from the argument that `start_worker` gave to this program. Processes that the handler
        starts do not get them."""
        self._input, self._output, self._claims, page = map(int, descriptors.split(","))
        for descriptor in (self._input, self._output, self._claims, page):
            os.set_inheritable(descriptor, False)
        self.page = SharedPage(page)
        self._received = bytearray()

    @property
    def input(self) -> int:
        """The descriptor of the pipe to this worker, for a loop that waits for more than this."""
        return self._input

    def read(self, count: int) -> bytes:
        """Waits for this many bytes. Raises EndOfWorkError at the end."""
        received = self._received
        while len(received) < count:
            self.receive()
        data = bytes(memoryview(received)[:count])
        del received[:count]
        return data

    def receive(self) -> None:
        """Waits until some bytes arrive, and keeps them. Raises EndOfWorkError at the end."""
        data = os.read(self._input, _RECEIVED_BYTES_MAX)
        if not data:
            raise EndOfWorkError
        self._received += data

    def has(self, count: int) -> bool:
        """Whether this many bytes have been received, so that `read` does not wait."""
        return len(self._received) >= count

    def write(self, parts: Sequence[Buffer]) -> None:
        """Sends bytes, and waits until the pipe has taken them. Raises EndOfWorkError if there is no reader."""
        rest = memoryview(b"".join(parts))
        try:
            while rest:
                rest = rest[os.write(self._output, rest) :]
        except BrokenPipeError:
            raise EndOfWorkError from None

    def claim(self) -> bool:
        """Claims a piece of work. Returns False if it was taken back."""
        try:
            os.eventfd_read(self._claims)
        except BlockingIOError:
            return False
        return True

    def input_ended(self, seconds: float) -> bool:
        """Waits until the other process has ended or closed the pipe; at most for this time."""
        poll = select.poll()
        poll.register(self._input, 0)  # the end is reported always
        return bool(poll.poll(seconds * 1000))


def die_with_parent() -> None:
    """Asks the system to kill this process when the thread that started it ends, whatever this process is doing."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def ignore_stop_signals() -> None:
    """Ignores SIGTERM and SIGINT: the process that started this one decides when this one stops. A service manager may
    send its signal to all processes of a service at once.

    Programs that this process starts do not ignore the signals, as they would with SIG_IGN.
    """
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: None)


def kill_own_group() -> None:
    """Kills this process and the processes that it has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
