"""Finds the line of each setting in a TOML file, for messages about it. Python's reader of TOML forgets the lines."""

import re

_TABLE = re.compile(r"\s*\[\s*([A-Za-z0-9_.-]+|\"[^\"]*\")\s*\]")
_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_.-]+))\s*=""")

TOP = ""
"""The name of the part of a file before its first table."""


def setting_lines(text: str) -> dict[tuple[str, str], int]:
    """Returns the line of each setting, by its table and name; the first line if there are several."""
    lines: dict[tuple[str, str], int] = {}
    table = TOP
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _TABLE.match(line)) is not None:
            table = found[1].strip('"')
            lines.setdefault((TOP, table), number)
        elif (found := _KEY.match(line)) is not None:
            lines.setdefault((table, found[1] or found[2] or found[3]), number)
    return lines
