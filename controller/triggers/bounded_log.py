"""The output of a process in a file of bounded size: the newest part is kept, and the oldest is dropped.

There are two files: the log, and the previous one with `.old` behind its name. When the log is full, it becomes the
previous one, and a new log begins.
"""

from msgspec import Struct

from tailrace.runtime.files import File, Files

HALF_BYTES_MAX = 1024 * 1024
"""How large the log becomes before a new one begins."""
LAST = -1
"""The position that stands for the last part of a log."""


class LogPart(Struct, frozen=True):
    """A part of a log."""

    text: str
    next: int
    """The position after the part. Positions are bytes since the oldest part that was there at the start."""


class BoundedLog:
    def __init__(self, files: Files, path: str, half_bytes_max: int = HALF_BYTES_MAX) -> None:
        """The directory of `path` exists. Files of an earlier process are continued."""
        self._files = files
        self._path = path
        self._half_bytes_max = half_bytes_max
        self._start = 0
        """The position of the first byte that is kept."""
        self._old_bytes = files.size(self._old_path) if files.exists(self._old_path) else 0
        self._file = files.open(path, create=True)
        self._bytes = self._file.size()

    @property
    def _old_path(self) -> str:
        return f"{self._path}.old"

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self._start + self._old_bytes + self._bytes

    def append(self, data: bytes) -> None:
        """Appends what the process has printed."""
        if self._bytes and self._bytes + len(data) > self._half_bytes_max:
            self._begin()
        self._file.append(data[-self._half_bytes_max :])
        self._bytes += min(len(data), self._half_bytes_max)

    def _begin(self) -> None:
        if self._files.exists(self._path):  # otherwise no new file could be opened the last time
            self._files.rename(self._path, self._old_path)
        new = self._files.open(self._path, create=True)
        self._file.close()
        self._start += self._old_bytes
        self._old_bytes, self._bytes, self._file = self._bytes, 0, new

    def read(self, after: int, bytes_max: int) -> LogPart:
        """Reads whole lines after a position, or the last lines for LAST.

        A position that is not kept any more, or that another process has given, stands for the oldest line.
        """
        is_last = after == LAST
        begin = max(self._start, self.end - bytes_max) if is_last else after
        if not self._start <= begin <= self.end:
            begin = self._start
        data = self._bytes_at(begin, min(bytes_max, self.end - begin))
        if is_last and begin > self._start:
            skipped = data.find(b"\n") + 1
            begin, data = begin + skipped, data[skipped:]
        whole = data.rfind(b"\n") + 1
        if whole == 0 and len(data) == bytes_max:
            whole = bytes_max  # A line that is longer than a part is read in pieces.
        return LogPart(data[:whole].decode(errors="replace"), begin + whole)

    def last_line(self) -> str:
        """Returns the last whole line that is not empty, or nothing."""
        lines = self.read(LAST, 4096).text.splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _bytes_at(self, position: int, count: int) -> bytes:
        data, offset = b"", position - self._start
        if offset < self._old_bytes:
            old = self._files.open(self._old_path)
            try:
                data = _read(old, offset, min(count, self._old_bytes - offset))
            finally:
                old.close()
            offset, count = self._old_bytes, count - len(data)
        return data + _read(self._file, offset - self._old_bytes, count)

    def close(self) -> None:
        self._file.close()


def _read(file: File, position: int, count: int) -> bytes:
    return file.read_at(position, count) if count > 0 else b""
