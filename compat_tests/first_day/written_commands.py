"""The commands and programs that a page tells people to run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = {"make", "tailrace", "source", "echo", "seq", "printf", "export", "curl"}

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def section(page: str, heading: str) -> str:
    """Returns the text below a heading of the second level."""
    text = (ROOT / page).read_text()
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no section {heading!r}"
    return found[1]


def commands(page: str, heading: str) -> list[str]:
    """Returns the blocks of a section that are shell commands, in order."""
    blocks = [(language, text) for language, text in _BLOCK.findall(section(page, heading))]
    return [text for language, text in blocks if language in ("", "sh") and text.split()[0] in PROGRAMS]


def programs(page: str, heading: str) -> list[str]:
    """Returns the Python programs of a section, in order."""
    return [text for language, text in _BLOCK.findall(section(page, heading)) if language == "python"]


def commands_in_table(page: str, heading: str) -> list[str]:
    """Returns the commands in the cells of the tables of a section."""
    rows = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    found = [code for row in rows for code in re.findall(r"`([^`]+)`", row)]
    return [code for code in found if code.split()[0] in PROGRAMS]
