"""The file seam: plain synchronous calls for what stays in the page cache, awaits for what must reach the disk.

Appends and reads go straight to the page cache from the event loop: a thread hop costs several times more than the
write itself. Only what waits for the disk (sync, durable replace) runs in a thread, as long as there is one to be had;
it runs nowhere else.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import resource
import shutil
from collections.abc import Callable
from functools import partial
from typing import Protocol

import trio

from .system_calls import sync_data

Buffer = bytes | bytearray | memoryview
_BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"


class UnreadableError(OSError):
    """The disk does not give what is in the file; `filename` is its path. Whoever sends from files while others wait
    knows by this that it is not the connection that broke."""

    def __init__(self, path: str, before: bytes = b"") -> None:
        super().__init__(errno.EIO, "the disk cannot read the file", path)
        self.before = before
        """What was asked for, as far as the disk gave it."""


class File(Protocol):
    """One open file. It closes itself when the last reference goes, so a reader may outlive its removal."""

    @property
    def path(self) -> str: ...

    @property
    def descriptor(self) -> int | None:
        """For `sendfile`; None where there is no real file below."""

    def size(self) -> int: ...

    def append(self, data: Buffer) -> None:
        """Writes all of the data at the end, or raises OSError; then part of it may have been written."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def read_at(self, position: int, count: int) -> bytes:
        """Up to `count` bytes; fewer only at the end of the file. Raises UnreadableError."""

    def map(self) -> memoryview:
        """The content as it is now, memory-mapped and read-only. An empty file gives an empty view."""

    def truncate(self, size: int) -> None: ...

    async def sync(self) -> None:
        """Returns once everything appended before the call is on the disk."""

    def sync_now(self) -> None:
        """The same, and nothing else runs meanwhile: for what is rare, and must not go on without it."""

    def close(self) -> None: ...


class FileLock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Opens for reading and writing. Without `create` a missing file is FileNotFoundError."""

    def read(self, path: str) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, directory: str) -> list[str]:
        """Names in the directory, sorted; what is missing, or no directory, has none."""

    def make_directories(self, path: str) -> bool:
        """And those above it. Whether it was not there, so that it is empty now."""

    def remove(self, path: str) -> None:
        """Removes a file; a missing one is no error."""

    def remove_empty_directory(self, path: str) -> None:
        """One that is not empty, or cannot be removed, stays."""

    async def discard(self, path: str) -> None:
        """Removes a file that may be large: nobody waits while its blocks are freed, which takes long."""

    async def discard_tree(self, directory: str) -> None: ...

    def rename(self, path: str, to: str) -> None: ...

    async def replace(self, path: str, data: bytes) -> None:
        """Puts `data` at `path` atomically and durably: old or new, also after a crash, never a mixture."""

    async def sync_directory(self, directory: str) -> None:
        """Returns once creations, renames and removals in the directory are on the disk."""

    def lock(self, path: str) -> FileLock | None:
        """Takes the lock file for this process; None when another holds it."""

    def free_bytes(self, directory: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that holds the directory."""

    def descriptors_max(self) -> int | None:
        """How many files and connections this process may have open; None: as many as it likes."""

    def boot_id(self) -> str:
        """Another one after the machine has stopped, and with it the page cache; empty where that cannot be known."""


class RealFile:
    __slots__ = ("__weakref__", "_descriptor", "_end", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._end = os.fstat(descriptor).st_size

    @property
    def path(self) -> str:
        return self._path

    @property
    def descriptor(self) -> int | None:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def append(self, data: Buffer) -> None:
        written = os.pwrite(self._descriptor, data, self._end)
        self._end += written
        if written != len(data):
            self._append_rest(memoryview(data)[written:])

    def _append_rest(self, rest: memoryview) -> None:
        while rest:
            written = os.pwrite(self._descriptor, rest, self._end)
            if written == 0:
                raise OSError(errno.ENOSPC, "the file accepts no more bytes", self._path)
            self._end += written
            rest = rest[written:]

    def write_at(self, position: int, data: Buffer) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, position)
            position += written
            rest = rest[written:]
        self._end = max(self._end, position)

    def read_at(self, position: int, count: int) -> bytes:
        data = b""
        try:
            data = os.pread(self._descriptor, count, position)
            # Less comes at the end of the file, and before a page that the disk does not give.
            while len(data) < count and (rest := os.pread(self._descriptor, count - len(data), position + len(data))):
                data += rest
        except OSError as error:
            if error.errno == errno.EIO:
                raise UnreadableError(self._path, data) from error
            raise
        return data

    def map(self) -> memoryview:
        if self.size() == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._end = size

    async def sync(self) -> None:
        await _in_thread(sync_data, self._descriptor)

    def sync_now(self) -> None:
        sync_data(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class RealLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class RealFiles:
    def __init__(self, *, read_only: bool = False) -> None:
        """`read_only` is for tools: they change nothing, and need no permission to."""
        self._access = os.O_RDONLY if read_only else os.O_RDWR

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = self._access | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(path, os.open(path, flags, 0o644))

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_directories(self, path: str) -> bool:
        try:
            os.mkdir(path)  # those above it are nearly always there
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
            return False
        return True

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_empty_directory(self, path: str) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(path)

    async def discard(self, path: str) -> None:
        await _in_thread(self.remove, path)

    async def discard_tree(self, directory: str) -> None:
        await _in_thread(partial(shutil.rmtree, directory, ignore_errors=True))

    def rename(self, path: str, to: str) -> None:
        os.rename(path, to)

    async def replace(self, path: str, data: bytes) -> None:
        await _in_thread(_replace_durably, path, data)

    async def sync_directory(self, directory: str) -> None:
        await _in_thread(sync_directory, directory)

    def lock(self, path: str) -> RealLock | None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return RealLock(descriptor)

    def free_bytes(self, directory: str) -> tuple[int, int]:
        volume = os.statvfs(directory)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def descriptors_max(self) -> int | None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft

    def boot_id(self) -> str:
        try:
            with open(_BOOT_ID_PATH) as file:
                return file.read().strip()
        except OSError:
            return ""


async def _in_thread(work: Callable[..., None], *arguments: object) -> None:
    """Where the process may have no more threads everybody waits instead: it must be done, and nothing is wrong with
    the disk."""
    try:
        await trio.to_thread.run_sync(work, *arguments)
    except RuntimeError:
        work(*arguments)


def _replace_durably(path: str, data: bytes) -> None:
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except OSError:
        os.unlink(temporary)  # on a full disk it has the last of the room
        raise
    finally:
        os.close(descriptor)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
