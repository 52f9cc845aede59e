"""Reads files in processes that have no Trio, such as the executors of Spark. It writes nothing."""

import os


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
