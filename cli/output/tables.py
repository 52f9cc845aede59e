"""Formats tables and fields for people, aligned and without control characters.

A terminal gets colours, and its tables fit into its width. Everything else gets plain text with whole cells, so that
programs can read it.
"""

import sys
from collections.abc import Iterable, Sequence

from .printing import plain
from .terminal import WIDTH_MIN, Cell, drawn_table, is_capable, toned_text, width_of
from .tones import tone_of

NOTHING = "-"


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats a table. Columns of numbers align right, others left; None and empty texts become a dash.

    A cell may be `Toned`. Cells in a column STATUS or STATE have a tone of their own.
    """
    cells = [[Cell(_text(cell), tone_of(title, cell)) for title, cell in zip(titles, row, strict=True)] for row in rows]
    to_the_right = [
        bool(cells) and all(row[column].text.isdecimal() or row[column].text == NOTHING for row in cells)
        for column in range(len(titles))
    ]
    if is_capable(sys.stdout) and (width := width_of(sys.stdout)) >= WIDTH_MIN:
        return drawn_table(titles, cells, to_the_right, width=width)
    return _plain_table([list(titles), *([cell.text for cell in row] for row in cells)], to_the_right)


def _plain_table(lines: Sequence[Sequence[str]], to_the_right: Sequence[bool]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, to_the_right, strict=True)
        ).rstrip()
        for line in lines
    )


def fields(pairs: Iterable[tuple[str, object]]) -> str:
    """Formats a name and its value on each line; values that are None or empty are left out.

    A value may be `Toned`. The fields Status and State have a tone of their own.
    """
    shown = [(name, value) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(
        f"{name + ':':{width + 1}} {toned_text(_text(value), tone_of(name, value))}" for name, value in shown
    )


def _text(cell: object) -> str:
    return NOTHING if cell is None or cell == "" else plain(str(cell))
