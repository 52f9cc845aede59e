"""The log of a child process, in a file without a name.

Nothing remains of such a file after the end of both processes, and the child never waits for a reader.
"""

import os
import tempfile

LOG_BYTES_MAX = 256 * 1024
"""How much of the log is read at a time, and kept after the end. What comes before that is skipped."""


class BrokerLog:
    """A file that a child writes, and what is left of it after the end."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115  until `close`
        self._kept = b""
        self._size = 0

    def fileno(self) -> int:
        """Returns the descriptor for the child's standard error."""
        return self._file.fileno()

    @property
    def size(self) -> int:
        """How many bytes the child has logged."""
        return self._size if self._file.closed else os.fstat(self._file.fileno()).st_size

    def text(self, begin: int = 0) -> str:
        """Returns what was logged from the byte `begin` on, without what was skipped."""
        begin = max(begin, self.size - LOG_BYTES_MAX, 0)
        if self._file.closed:
            found = self._kept[max(begin - (self._size - len(self._kept)), 0) :]
        else:
            found = os.pread(self._file.fileno(), LOG_BYTES_MAX, begin)
        return found.decode(errors="replace")

    def close(self) -> None:
        """Keeps the end of the log in memory, and closes the file."""
        if not self._file.closed:
            size = self.size
            kept = os.pread(self._file.fileno(), LOG_BYTES_MAX, max(size - LOG_BYTES_MAX, 0))
            self._size, self._kept = size, kept
            self._file.close()
