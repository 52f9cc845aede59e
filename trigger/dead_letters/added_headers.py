"""Headers that are added after those of a record, as one block, and removed again. The record's own headers stay.

A record may have headers of the same names already, for example if a trigger reads a topic of dead letters. So a block
has all its names, each once, and only the last block counts.
"""

from collections.abc import Container, Mapping, Sequence

Headers = Sequence[tuple[str, bytes | None]]


def with_block(headers: Headers, prefix: str, block: Mapping[str, str]) -> tuple[tuple[str, bytes | None], ...]:
    """Returns the headers and a block; `prefix` begins the name of each header in the block."""
    added = ((prefix + name, value.encode(errors="surrogateescape")) for name, value in block.items())
    return (*headers, *added)


def split_block(headers: Headers, prefix: str, names: Container[str]) -> tuple[Headers, dict[str, str]]:
    """Returns the headers before the last block, and the block without its prefix; an empty one if there is none.

    `names` are those that a block may have.
    """
    block: dict[str, str] = {}
    for first in range(len(headers), 0, -1):
        name, value = headers[first - 1]
        short = name.removeprefix(prefix)
        if not name.startswith(prefix) or short not in names or short in block:
            return headers[:first], block
        block[short] = (value or b"").decode(errors="backslashreplace")
    return headers[:0], block


def whole_number(text: str | None, otherwise: int = -1) -> int:
    """Reads a number in a header that another program may have written."""
    try:
        return otherwise if text is None else int(text)
    except ValueError:
        return otherwise
