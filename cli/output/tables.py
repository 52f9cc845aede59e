"""Formats tables and fields for a terminal, aligned and without control characters."""

from collections.abc import Iterable, Sequence

from .printing import plain

NOTHING = "-"


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats a table. Columns of numbers align right, others left; None and empty texts become a dash."""
    lines = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
    to_the_right = [
        bool(lines) and all(line[column].isdecimal() or line[column] == NOTHING for line in lines)
        for column in range(len(titles))
    ]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, to_the_right, strict=True)
        ).rstrip()
        for line in (list(titles), *lines)
    )


def fields(pairs: Iterable[tuple[str, object]]) -> str:
    """Formats a name and its value on each line; values that are None or empty are left out."""
    shown = [(name, value) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name + ':':{width + 1}} {_text(value)}" for name, value in shown)


def _text(cell: object) -> str:
    return NOTHING if cell is None or cell == "" else plain(str(cell))
