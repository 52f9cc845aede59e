"""Reads a page of the documentation as the steps that it tells people to take."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_PLACE = re.compile(r"^# on (\S+)\n")


class Step(Struct, frozen=True):
    """One code block of the page."""

    prose: str
    """The text between the previous block and this one."""
    language: str
    text: str
    """The block without the line that names the machine."""
    place: str | None
    shown: str | None
    """The next block, if it shows what this one prints."""


def steps(page: str, section: str) -> list[Step]:
    """Returns the steps below a heading of the second level."""
    text = (ROOT / page).read_text()
    found = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no section {section!r}"
    return list(_steps(found[1]))


def _steps(text: str) -> Iterator[Step]:
    blocks = list(_BLOCK.finditer(text))
    ends = [0, *(block.end() for block in blocks)]
    for number, block in enumerate(blocks):
        language, content = block.groups()
        if not language:
            continue
        place = _PLACE.match(content)
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        yield Step(
            text[ends[number] : block.start()],
            language,
            _PLACE.sub("", content),
            place[1] if place else None,
            after[2] if after is not None and not after[1] else None,
        )
