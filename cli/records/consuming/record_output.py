"""Writes consumed records to standard output, in the format that the command line asks for.

Records are written in pieces of bounded size. The next piece is formatted when the reader has taken the last one, so a
slow reader slows the command down and never fills its memory.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable

from tailrace.cli.records.formats.consumed_output import line_text, record_document
from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.cli.records.formats.record_json import json_line

PIECE_BYTES = 128 * 1024
"""The size from which formatted records are written."""

Format = Callable[[Consumed], bytes]
"""Formats a record with its line end."""
GoesOn = Callable[[Consumed], bool]
WriteOutput = Callable[[bytes], Awaitable[None]]


def _always(_: Consumed) -> bool:
    return True


class RecordOutput:
    """Formats records and writes them."""

    def __init__(self, record_format: Format, write: WriteOutput) -> None:
        self._format = record_format
        self._write = write

    async def show(self, records: Iterable[Consumed], goes_on: GoesOn = _always) -> int:
        """Writes records, returns when the reader of standard output has them, and says how many it has.

        `goes_on` gets the last record of each piece that was written, and says whether the next piece is wanted.
        """
        written = count = 0
        piece = bytearray()
        last: Consumed | None = None
        for each in records:
            if len(piece) >= PIECE_BYTES and last is not None:
                await self._write(bytes(piece))
                written = count
                piece.clear()
                if not goes_on(last):
                    return written
            piece += self._format(each)
            last = each
            count += 1
        if last is not None:
            if piece:
                await self._write(bytes(piece))
            goes_on(last)
        return count


def output_format(name: str) -> Format:
    """Returns the format that `--output` names."""
    return {"json": _json, "yaml": _yaml}.get(name, _line)


def value_format(consumed: Consumed) -> bytes:
    """Formats the value alone, byte for byte."""
    return (consumed.record.value or b"") + b"\n"


def _line(consumed: Consumed) -> bytes:
    return f"{line_text(consumed)}\n".encode(sys.stdout.encoding or "ascii", "backslashreplace")


def _json(consumed: Consumed) -> bytes:
    return f"{json_line(consumed)}\n".encode()


def _yaml(consumed: Consumed) -> bytes:
    import yaml

    text = yaml.safe_dump(record_document(consumed), sort_keys=False, default_flow_style=None, width=120)
    return f"---\n{text}".encode(sys.stdout.encoding or "ascii", "backslashreplace")
