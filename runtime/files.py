"""The file seam: synchronous calls for what stays in the page cache, awaits for what must reach the disk.

Appends and reads go straight to the page cache from the event loop, because a thread hop costs several times more than
the write itself. What waits for the disk (sync, durable replace) runs in a thread. If the process can have no more
threads, it blocks the event loop instead.
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
    """The disk cannot read a part of a file; `filename` is the file's path.

    A caller that sends from a file to a connection can tell by this error that the connection is not broken.
    """

    def __init__(self, path: str, before: bytes = b"") -> None:
        super().__init__(errno.EIO, "the disk cannot read the file", path)
        self.before = before
        """The requested bytes before the part that could not be read."""


class File(Protocol):
    """An open file. It closes itself with its last reference, so a reader may outlive the file's removal."""

    @property
    def path(self) -> str: ...

    @property
    def descriptor(self) -> int | None:
        """The descriptor for `sendfile`; None for a simulated file."""

    def size(self) -> int: ...

    def append(self, data: Buffer) -> None:
        """Writes all data at the end. Raises OSError; then a part of the data may have been written."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def read_at(self, position: int, count: int) -> bytes:
        """Returns up to `count` bytes; fewer only at the end of the file. Raises UnreadableError."""

    def map(self) -> memoryview:
        """Returns the current content, memory-mapped and read-only. An empty file gives an empty view."""

    def truncate(self, size: int) -> None: ...

    async def sync(self) -> None:
        """Returns once everything that was written before the call is on the disk."""

    def sync_now(self) -> None:
        """Syncs while nothing else runs: for rare cases that must not go on without it."""

    def close(self) -> None: ...


class FileLock(Protocol):
    """A lock file that this process holds."""

    def release(self) -> None: ...


class Files(Protocol):
    """The files of one machine."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens a file for reading and writing. Raises FileNotFoundError for a missing file without `create`."""

    def read(self, path: str) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, directory: str) -> list[str]:
        """Returns the sorted names in the directory; none if it is missing or no directory."""

    def make_directories(self, path: str) -> bool:
        """Makes the directory and those above it. Returns whether it was missing, and is therefore empty."""

    def remove(self, path: str) -> None:
        """Removes a file. A missing file is no error."""

    def remove_empty_directory(self, path: str) -> None:
        """Removes the directory if it is empty and can be removed."""

    async def discard(self, path: str) -> None:
        """Removes a file in a thread. Freeing the blocks of a large file takes long."""

    async def discard_tree(self, directory: str) -> None: ...

    def rename(self, path: str, to: str) -> None: ...

    async def replace(self, path: str, data: bytes) -> None:
        """Replaces the content of `path` by `data` atomically and durably: after a crash it is the old or the new
        one."""

    def write_private(self, path: str, data: bytes) -> None:
        """Creates a file that only the user of this process can read. Its content is on the disk then, and its name
        with the next `sync_directory`. Raises FileExistsError."""

    async def sync_directory(self, directory: str) -> None:
        """Returns once creations, renames and removals in the directory are on the disk."""

    def lock(self, path: str) -> FileLock | None:
        """Takes the lock file for this process and writes the id of the process into it.

        Returns None if another process holds it.
        """

    def free_bytes(self, directory: str) -> tuple[int, int]:
        """Returns the total and the usable bytes of the volume that holds the directory."""

    def descriptors_max(self) -> int | None:
        """Returns how many descriptors this process may have open; None if there is no limit."""

    def boot_id(self) -> str:
        """Returns an id that changes when the machine stops and loses its page cache; empty if that cannot be known."""


class RealFile:
    """A file of the operating system."""

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
            # A read is short at the end of the file, and before a page that the disk cannot read.
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
    """A lock file that this process holds."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class RealFiles:
    """The files of the operating system."""

    def __init__(self, *, read_only: bool = False) -> None:
        """`read_only` is for tools, which change nothing and need no permission to."""
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
            os.mkdir(path)  # the directories above it nearly always exist
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

    def write_private(self, path: str, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)

    async def sync_directory(self, directory: str) -> None:
        await _in_thread(sync_directory, directory)

    def lock(self, path: str) -> RealLock | None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        with contextlib.suppress(OSError):  # the disk may be full, and the lock holds without it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
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
    """Runs `work` in a thread; if the process can have no more threads, runs it here.

    Blocking the event loop is better than an error then: the work must be done, and nothing is wrong with the disk.
    """
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
        os.unlink(temporary)  # on a full disk it occupies the last free space
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
