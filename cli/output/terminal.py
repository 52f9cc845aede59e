"""Shows tables and colours on a terminal, with the library rich. Other outputs get plain text.

Rich is imported only when something is shown on a terminal, because the import takes 40 ms.
"""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from .tones import NO_COLOR, Tone, Toned

if TYPE_CHECKING:
    from rich.console import Console

_DUMB = frozenset({"dumb", "unknown"})
WIDTH_MIN = 40
"""The narrowest terminal for which tables are fitted."""
WIDTH_USUAL = 80
"""The width of a terminal that does not say how wide it is."""
WIDTH_MAX = 10_000


class Cell(Struct, frozen=True):
    """The text of one cell of a table, and its tone."""

    text: str
    tone: Tone | None = None


def is_capable(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can move its cursor and show colours."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in _DUMB


def width_of(stream: TextIO) -> int:
    """Returns the number of characters in a line of the terminal; `COLUMNS` overrides what the terminal says."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdecimal() and 0 < int(given) <= WIDTH_MAX:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH_USUAL
    except (OSError, ValueError):
        return WIDTH_USUAL


def shows_colours() -> bool:
    """Whether the user allows colours."""
    return not os.environ.get(NO_COLOR)


def toned_text(text: str, tone: Tone | None = None) -> str:
    """Returns a text for standard output, in the colour of its tone if standard output shows colours."""
    if tone is None and isinstance(text, Toned):
        tone = text.tone
    if tone is None or not shows_colours() or not is_capable(sys.stdout):
        return str(text)
    return coloured(str(text), tone)


def coloured(text: str, tone: Tone) -> str:
    """Returns a text in the colour of its tone."""
    from rich.text import Text

    with console(width=max(WIDTH_MIN, len(text) + 1)) as (drawing, lines):
        drawing.print(Text(text, style=tone.value), end="", soft_wrap=True)
    return lines.getvalue()


def drawn_table(
    titles: Sequence[str], rows: Sequence[Sequence[Cell]], to_the_right: Sequence[bool], *, width: int
) -> str:
    """Draws a table without borders that is at most `width` wide. Long cells continue on the next line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, title in enumerate(titles):
        # A number must not be broken into two lines.
        whole = max(len(title), *(len(row[number].text) for row in rows)) if to_the_right[number] and rows else None
        table.add_column(
            Text(title), justify="right" if to_the_right[number] else "left", overflow="fold", min_width=whole
        )
    for row in rows:
        table.add_row(*(Text(cell.text, style="" if cell.tone is None else cell.tone.value) for cell in row))
    with console(width=width) as (drawing, lines):
        drawing.print(table)
    return "\n".join(line.rstrip() for line in lines.getvalue().splitlines())


@contextmanager
def console(*, width: int) -> Iterator[tuple["Console", io.StringIO]]:
    """Provides a console of rich, and the stream on which it draws for a terminal that is `width` wide."""
    from rich.console import Console

    lines = io.StringIO()
    colours = "auto" if shows_colours() else None
    yield (
        Console(
            file=lines,
            force_terminal=True,
            color_system=colours,  # type: ignore[arg-type]  # mypy widens the literal
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        ),
        lines,
    )
