"""Splits text into lines, and each line into the key and the value of a record."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

LINE_BYTES_MAX = 32 * 2**20
"""The longest line; topics accept smaller records unless their limit was raised far."""

Headers = Sequence[tuple[str, bytes | None]]


class Entry(NamedTuple):
    """The content of one line."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    """The time of the record in milliseconds since 1970; None if the line has none."""
    partition: int | None = None
    """The partition that the line names, if any."""


class LineError(Exception):
    """A line is wrong; the message is one sentence that says how."""


ReadEntry = Callable[[bytes, int], Entry]
"""Reads one line, whose number is for errors. Raises LineError."""


class LineFormat(Struct, frozen=True):
    """How a line contains a key and a value."""

    separator: bytes | None = None
    """The text that ends the key; None if lines have no key."""
    null: bytes | None = None
    """The text that stands for no value; None if every line has a value."""

    def entry(self, line: bytes, number: int) -> Entry:
        """Splits one line. Raises LineError."""
        key, value = None, line
        if self.separator is not None:
            key, found, value = line.partition(self.separator)
            if not found:
                raise LineError(
                    f"line {number} has no {self.separator.decode(errors='backslashreplace')!r} after a key"
                )
        return Entry(key, None if value == self.null else value)


class Lines:
    """Splits a text that arrives in pieces. Every byte but the line end belongs to the line."""

    def __init__(self, read_entry: ReadEntry, line_end: bytes = b"\n") -> None:
        self._read_entry = read_entry
        self._line_end = line_end
        self._rest = bytearray()
        self._count = 0
        self.fault: LineError | None = None
        """The error in the first wrong line, after which nothing is read; None if there is none."""

    def feed(self, data: bytes) -> list[Entry]:
        """Returns the entries of the lines that are complete now, up to a wrong one."""
        # The line end may have begun in an earlier piece.
        searched = max(0, len(self._rest) - len(self._line_end) + 1)
        self._rest += data
        entries: list[Entry] = []
        if self._rest.find(self._line_end, searched) >= 0:
            *whole, rest = bytes(self._rest).split(self._line_end)
            self._rest[:] = rest
            entries = self._entries(whole)
        if len(self._rest) > LINE_BYTES_MAX and self.fault is None:
            self.fault = LineError(f"line {self._count + 1} is longer than {LINE_BYTES_MAX // 2**20} MiB")
        return entries

    def end(self) -> list[Entry]:
        """Returns the entry of the last line, if it has no line end."""
        return self._entries([bytes(self._rest)] if self._rest else [])

    def _entries(self, lines: list[bytes]) -> list[Entry]:
        entries: list[Entry] = []
        for line in lines:
            if self.fault is not None:
                break
            self._count += 1
            try:
                entries.append(self._read_entry(line, self._count))
            except LineError as fault:
                self.fault = fault
        return entries
