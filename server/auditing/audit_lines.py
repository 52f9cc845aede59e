"""Reads the lines of an audit log for its copy in a topic: which lines follow those that the topic has.

The files of the log are the buffer of the copy, so that nothing is lost while the topic is unavailable, unless the
oldest file is removed first. The position of the copy is in a file, because another process goes on from there. A line
may be copied twice if a process ends before it has stored the position.
"""

import json
import posixpath
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from tailrace.runtime.files import Files
from tailrace.security.audit.audit_chain import parse_line

from .audit_files import log_names

POSITION = "topic-position"
"""The name of the file with the position, in the directory of the audit log."""
CHUNK_BYTES_MAX = 256 * 1024
"""How many bytes of lines are copied at a time."""

End = Callable[[], tuple[str, int] | None]
"""Returns the name of the file that is being written, and how many of its bytes count. None before the first write."""


class LinePosition(Struct, frozen=True):
    """The end of what the topic has."""

    number: int = 0
    """The number of the last line."""
    file: str = ""
    """The name of the file with this line; empty if no line was copied."""
    offset: int = 0
    """The place in the file after this line."""


class LineChunk(Struct, frozen=True):
    """Lines that follow each other, without their ends."""

    lines: tuple[bytes, ...]
    position: LinePosition
    """The position after these lines."""
    missed: int = 0
    """How many lines before them were removed with their file, so that the topic never gets them."""


class AuditLines:
    """The lines that the topic does not have yet. `open` comes first."""

    def __init__(self, directory: str, files: Files, end: End) -> None:
        self._directory = directory
        self._files = files
        self._end = end
        self._position = LinePosition()
        self.chain = ""
        """A random text that distinguishes this log from others in the topic, also from earlier ones of this server."""

    async def open(self, new_chain: str) -> None:
        """Reads the position, or begins a new one at the start of the log. Raises OSError."""
        path = posixpath.join(self._directory, POSITION)
        try:
            document = json.loads(self._files.read(path))
            position = LinePosition(int(document["n"]), str(document["file"]), int(document["offset"]))
            self.chain, self._position = str(document["chain"]), position
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            self.chain = new_chain
            await self._store(self._position)

    def next(self) -> LineChunk | None:
        """Returns the next lines; None if the topic has all of them. Raises OSError."""
        position, names = self._position, log_names(self._files, self._directory)
        for name in names:
            if name < position.file:
                continue
            if name != position.file:
                position = replace(position, file=name, offset=0)
            lines, end = self._lines(position)
            if lines:
                return self._chunk(lines, replace(position, offset=end))
        return None

    async def advance(self, chunk: LineChunk) -> None:
        """Stores that the topic has these lines. Raises OSError."""
        self._position = chunk.position
        await self._store(chunk.position)

    def _lines(self, position: LinePosition) -> tuple[list[bytes], int]:
        """Returns the complete lines of a file from a place on, and the place after them."""
        end = self._end()
        count = CHUNK_BYTES_MAX
        if end is not None and end[0] == position.file:
            count = min(count, end[1] - position.offset)
        path = posixpath.join(self._directory, position.file)
        data = self._files.open(path).read_at(position.offset, count) if count > 0 else b""
        data = data[: data.rfind(b"\n") + 1]  # what an earlier process has left incomplete is no line
        return data.split(b"\n")[:-1], position.offset + len(data)

    def _chunk(self, lines: list[bytes], position: LinePosition) -> LineChunk:
        first, last = parse_line(lines[0]), parse_line(lines[-1])
        before = self._position.number
        missed = 0 if first is None else max(0, first.number - before - 1)
        number = before if last is None else last.number
        return LineChunk(tuple(lines), replace(position, number=number), missed)

    async def _store(self, position: LinePosition) -> None:
        document = {
            "chain": self.chain,
            "n": position.number,
            "file": position.file,
            "offset": position.offset,
        }
        await self._files.replace(posixpath.join(self._directory, POSITION), json.dumps(document).encode() + b"\n")
