"""A temporary directory that is removed with everything in it when the process that uses it ends.

A process that is killed cannot remove its directory. The next process that makes such a directory in the same place
removes it. A lock shows which directories are still in use.
"""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from tailrace.runtime.files import Files

PREFIX = "tailrace-ephemeral-"
_REMOVED = ".removed"
"""The end of the name of a directory that is being removed. Its lock file may no longer exist."""
_LOCK = "lock"


@asynccontextmanager
async def ephemeral_directory(files: Files, parent: str) -> AsyncIterator[str]:
    """Makes a directory in `parent` and removes it at the end. Removes those that killed processes have left there.

    Raises OSError if the directory cannot be made.
    """
    files.make_directories(parent)
    await _remove_abandoned(files, parent)
    while True:
        path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)  # only this user can read it
        lock = files.lock(f"{path}/{_LOCK}")
        if lock is not None:
            break  # otherwise another process has just taken the new directory for an abandoned one
    try:
        yield path
    finally:
        with trio.CancelScope(shield=True):
            await _remove(files, path)
        lock.release()


async def _remove_abandoned(files: Files, parent: str) -> None:
    for name in files.list(parent):
        path = f"{parent}/{name}"
        if not name.startswith(PREFIX) or not _is_own(path):
            continue
        with suppress(OSError):
            if name.endswith(_REMOVED):
                await files.discard_tree(path)
            elif files.exists(f"{path}/{_LOCK}") and (lock := files.lock(f"{path}/{_LOCK}")) is not None:
                await _remove(files, path)
                lock.release()


async def _remove(files: Files, path: str) -> None:
    with suppress(OSError):
        files.rename(path, path + _REMOVED)
        await files.discard_tree(path + _REMOVED)


def _is_own(path: str) -> bool:
    """Whether this user has made the directory. In a shared directory, another user could set a trap with this name."""
    try:
        return os.lstat(path).st_uid == os.getuid()
    except OSError:
        return False
