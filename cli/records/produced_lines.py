"""Lines of a text as records: where each ends, and which part of it is the key."""

from typing import NamedTuple

from msgspec import Struct

LINE_BYTES_MAX = 32 * 2**20
"""More than a topic ever takes as one record, unless somebody has raised its limit far."""


class Entry(NamedTuple):
    """What a line says."""

    key: bytes | None
    value: bytes | None


class LineError(Exception):
    """A line cannot be meant: one sentence."""


class LineFormat(Struct, frozen=True):
    separator: bytes | None = None
    """What ends the key; None: lines have no key."""
    null: bytes | None = None
    """What stands for no value."""

    def entry(self, line: bytes, number: int) -> Entry:
        """Raises LineError."""
        key, value = None, line
        if self.separator is not None:
            key, found, value = line.partition(self.separator)
            if not found:
                raise LineError(
                    f"line {number} has no {self.separator.decode(errors='backslashreplace')!r} after a key"
                )
        return Entry(key, None if value == self.null else value)


class Lines:
    """Takes the text in pieces; only the end of a line is none of its bytes."""

    def __init__(self, line_format: LineFormat) -> None:
        self._format = line_format
        self._rest = bytearray()
        self._count = 0
        self.fault: LineError | None = None
        """Of the first line that cannot be meant; nothing behind it is taken."""

    def feed(self, data: bytes) -> list[Entry]:
        """The lines that are whole now, up to one that cannot be meant."""
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = bytes(self._rest) + whole[0]
            self._rest.clear()
        self._rest += rest
        entries = self._entries(whole)
        if len(self._rest) > LINE_BYTES_MAX and self.fault is None:
            self.fault = LineError(f"line {self._count + 1} is longer than {LINE_BYTES_MAX // 2**20} MiB")
        return entries

    def end(self) -> list[Entry]:
        """The text is over: its last line need not have an end."""
        return self._entries([bytes(self._rest)] if self._rest else [])

    def _entries(self, lines: list[bytes]) -> list[Entry]:
        entries: list[Entry] = []
        for line in lines:
            if self.fault is not None:
                break
            self._count += 1
            try:
                entries.append(self._format.entry(line, self._count))
            except LineError as fault:
                self.fault = fault
        return entries
