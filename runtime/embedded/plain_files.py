"""Reads and writes files in processes that have no Trio, such as the executors of Spark."""

import hashlib
import io
import os
from contextlib import suppress
from errno import EEXIST
from typing import Any

from msgspec import Struct

from tailrace.runtime.chance import RandomChance

_COPIED_TOGETHER = 2**20
"""How many bytes of a file are in memory while it is copied."""


class PlainFile:
    """A file that is open for reading. It keeps its content if another process replaces or removes the file."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str) -> None:
        """Opens the file. Raises OSError, and FileNotFoundError for a missing file."""
        self._descriptor = -1
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, position: int, count: int) -> bytes:
        """Returns up to `count` bytes; fewer only at the end of the file. Raises OSError."""
        data = os.pread(self._descriptor, count, position)
        while len(data) < count and (rest := os.pread(self._descriptor, count - len(data), position + len(data))):
            data += rest
        return data

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def names_in(directory: str) -> list[str]:
    """Returns the sorted names in the directory. Raises OSError."""
    return sorted(os.listdir(directory))


def files_below(directory: str) -> list[str]:
    """Returns the sorted paths of all files below a directory, relative to it; none if it does not exist."""
    return sorted(
        os.path.relpath(os.path.join(parent, name), directory)
        for parent, _, names in os.walk(directory)
        for name in names
    )


class HashedFile(io.RawIOBase):
    """A new file that gets its name when it is complete and on the disk. It computes the SHA-256 of what is written."""

    def __init__(self, temporary: str) -> None:
        """Makes the file under a temporary name, which must be in the directory of the final one. Raises OSError."""
        self._descriptor = -1
        self._temporary = temporary
        self._descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._hash = hashlib.sha256()
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        """Writes everything. Raises OSError."""
        view = memoryview(data).cast("B")
        size = len(view)
        self._hash.update(view)
        self._size += size
        while view:
            view = view[os.write(self._descriptor, view) :]
        return size

    def publish(self, path: str) -> tuple[int, str]:
        """Gives the file its name, durably. Returns its size, and its checksum in hexadecimal. Raises OSError."""
        os.fsync(self._descriptor)
        if not _has_linked(self._temporary, path):
            raise FileExistsError(EEXIST, os.strerror(EEXIST), path)
        os.unlink(self._temporary)
        _sync_directory(os.path.dirname(path) or ".")
        self.close()
        return self._size, self._hash.hexdigest()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        super().close()


def make_directories(directory: str) -> None:
    """Makes a directory and those above it, durably. Raises OSError."""
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    if parent and parent != directory:
        make_directories(parent)
    with suppress(FileExistsError):
        os.mkdir(directory)
    _sync_directory(parent or ".")


def write_once(path: str, content: bytes) -> bool:
    """Writes a file that never changes, durably. Returns False, and changes nothing, if there is one of that name.

    The file is complete as soon as it has its name, whenever processes are killed. Raises OSError.
    """
    directory, _, name = path.rpartition("/")
    temporary = f"{directory or '.'}/.{name}.{RandomChance().below(2**32):08x}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not _has_linked(temporary, path):
            return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    _sync_directory(directory or ".")
    return True


def _has_linked(temporary: str, path: str) -> bool:
    """Gives a file a second name. Unlike a rename, this never replaces a file: it returns False if the name is taken.

    A network file system may report that the name is taken because it repeated a request that had succeeded, whose
    response was lost. Then the name is that of this file.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        return os.path.samefile(temporary, path)
    return True


def link_file(source: str, path: str) -> None:
    """Gives a file that never changes a second name, durably, or copies it where no link is possible.

    The file is complete as soon as it has its name. Nothing happens if the name is taken. Raises OSError.
    """
    if os.path.exists(path):
        return
    directory, _, name = path.rpartition("/")
    make_directories(directory or ".")
    try:
        os.link(source, path)
    except FileExistsError:
        return
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        _copy_file(source, f"{directory or '.'}/.{name}.{RandomChance().below(2**32):08x}.tmp", path)
    _sync_directory(directory or ".")


def _copy_file(source: str, temporary: str, path: str) -> None:
    content, copy = PlainFile(source), HashedFile(temporary)
    position = 0
    try:
        while data := content.read_at(position, _COPIED_TOGETHER):
            copy.write(data)
            position += len(data)
        with suppress(FileExistsError):
            copy.publish(path)
    finally:
        content.close()
        copy.close()
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_file(path: str) -> bytes:
    """Returns the whole content of a file. Raises OSError."""
    file = PlainFile(path)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def remove(path: str) -> None:
    """Removes a file. Raises OSError."""
    os.unlink(path)


def replace_file(path: str, content: bytes) -> None:
    """Replaces the content of a file, or makes it: readers see the old content or the new one. Raises OSError."""
    directory, _, name = path.rpartition("/")
    temporary = f"{directory or '.'}/.{name}.{RandomChance().below(2**32):08x}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


class FileAge(Struct, frozen=True):
    """A file, its size, and when it was last written to."""

    path: str
    size: int
    modified_ms: int


def file_ages_below(directory: str) -> list[FileAge]:
    """Returns all files below a directory, with paths relative to it; none if it does not exist."""
    found = []
    for path in files_below(directory):
        with suppress(FileNotFoundError):
            facts = os.stat(os.path.join(directory, path))
            found.append(FileAge(path, facts.st_size, facts.st_mtime_ns // 1_000_000))
    return found
