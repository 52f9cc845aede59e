"""How the open files that a process may have are shared out: each connection takes one, and so does each log in use.

Clients in great numbers must not take the file that a log needs at this moment, for without it a replica takes nothing.
One process may hold an SPU and the Streaming Controller; what is left, an eighth, is for other SPUs and all that is
open for a moment.

Where all are in use for a moment nothing is wrong with a disk. What a client asked for is refused for now; what must
reach the disk waits, as it would for a disk that is slow.
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
AGAIN_SECONDS = 0.5
_TRIES_MAX = 60
"""Whoever waits may hold up others, and a process that is to end."""


def clients_of_an_spu(descriptors_max: int | None) -> int:
    """None stands for as many open files as one likes."""
    return _share(descriptors_max, _CLIENTS_OF_AN_SPU)


def clients_of_a_controller(descriptors_max: int | None) -> int:
    return _share(descriptors_max, _CLIENTS_OF_A_CONTROLLER)


def files_of_logs(descriptors_max: int | None) -> int:
    return _share(descriptors_max, _LOGS)


def are_used_up(error: OSError) -> bool:
    """Whether it says that no more files can be opened now: nothing is wrong with the file, or with its disk."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


async def once_files_can_be_opened(work: Callable[[], Awaitable[T]]) -> T:
    """Does again what lacked an open file. Nothing of it was done then, or it can be done twice."""
    for _ in range(_TRIES_MAX):
        try:
            return await work()
        except OSError as error:
            if not are_used_up(error):
                raise
        await trio.sleep(AGAIN_SECONDS)
    return await work()


async def done_once_files_can_be_opened(work: Callable[[], T]) -> T:
    """The same for work that does not wait itself."""

    async def working() -> T:
        return work()

    return await once_files_can_be_opened(working)


def _share(descriptors_max: int | None, part: float) -> int:
    return UNBOUNDED if descriptors_max is None else max(1, int(descriptors_max * part))
