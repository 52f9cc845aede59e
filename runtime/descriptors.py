"""Shares out the file descriptors of a process between clients and logs, and retries when they run out.

Every connection takes a descriptor, and so does every log in use. Many clients must not take the descriptor that a log
needs, since a replica without one cannot accept records. One process may run an SPU and the Streaming Controller; the
remaining eighth is for other SPUs and for short uses.

If all descriptors are in use for a moment, nothing is wrong with a disk. Requests of clients are refused for now. What
must reach the disk waits, as it would for a slow disk.
"""

import errno
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")

UNBOUNDED = 2**31 - 1
_CLIENTS_OF_AN_SPU = 1 / 2
_LOGS = 1 / 4
_CLIENTS_OF_A_CONTROLLER = 1 / 8
RETRY_SECONDS = 0.5
"""How long to wait before a retry."""
_TRIES_MAX = 60
"""The number of retries. A waiting task may hold up others, and the end of the process."""


def spu_clients_max(descriptors_max: int | None) -> int:
    """Returns how many clients an SPU may accept. None stands for an unlimited number of descriptors."""
    return _share(descriptors_max, _CLIENTS_OF_AN_SPU)


def controller_clients_max(descriptors_max: int | None) -> int:
    """Returns how many clients a Streaming Controller may accept."""
    return _share(descriptors_max, _CLIENTS_OF_A_CONTROLLER)


def log_files_max(descriptors_max: int | None) -> int:
    """Returns how many files the logs may have open."""
    return _share(descriptors_max, _LOGS)


def is_out_of_files(error: OSError) -> bool:
    """Returns whether the error says that no more files can be opened. Then the file and its disk are fine."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


async def retry_when_out_of_files(work: Callable[[], Awaitable[T]]) -> T:
    """Runs `work`, and retries it while the process has too many open files.

    If `work` failed for that reason, it must have done nothing, or be repeatable.
    """
    for _ in range(_TRIES_MAX):
        try:
            return await work()
        except OSError as error:
            if not is_out_of_files(error):
                raise
        await trio.sleep(RETRY_SECONDS)
    return await work()


async def retry_call_when_out_of_files(work: Callable[[], T]) -> T:
    """Calls `work`, and retries it while the process has too many open files. See `retry_when_out_of_files`."""

    async def working() -> T:
        return work()

    return await retry_when_out_of_files(working)


def _share(descriptors_max: int | None, part: float) -> int:
    return UNBOUNDED if descriptors_max is None else max(1, int(descriptors_max * part))
