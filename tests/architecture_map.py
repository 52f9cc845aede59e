"""The map in docs/ARCHITECTURE.md: one line for each file, taken from the docstrings. `make docs` writes it.

The docstring of a package says what lives there, and the first line of a module's docstring says what the module is. A
module that uses Trio waits for something, and has a filled circle.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from product import PACKAGES, ROOT

PAGE = ROOT / "docs" / "ARCHITECTURE.md"
NAMED_AFTER_AN_API = (
    "protocol/messages",
    "protocol/internal",
    "protocol/group_records",
    "protocol/transaction_records",
    "server/handlers",
    "broker/handlers/administration",
    "broker/handlers/groups",
    "broker/handlers/stores",
    "controller/handlers",
)
"""Packages whose modules have the names of Kafka's APIs. The map describes them as a whole."""
BEGIN, END = "<!-- begin of the map: `make docs` writes it -->\n", "<!-- end of the map -->\n"
COLUMNS_MAX = 120


def the_map() -> str:
    return "\n".join(_lines()) + "\n"


def written(page: str) -> str:
    """Returns the page with the current map."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + the_map() + END + after


def _lines() -> Iterator[str]:
    for package in PACKAGES:
        for folder in sorted({path.parent for path in (ROOT / package).rglob("*.py")}):
            name = folder.relative_to(ROOT).as_posix()
            yield ""
            yield f"{'#' * (3 + name.count('/'))} {name}/"
            yield ""
            yield from _wrapped(" ".join(_docstring(folder / "__init__.py").split()))
            if name in NAMED_AFTER_AN_API:
                continue
            modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
            if modules:
                yield ""
            for module in modules:
                yield from _wrapped(f"- {'●' if _waits(module) else '○'} `{module.name}`: {_first_line(module)}", "  ")


def _docstring(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text, f"{path} has no docstring"
    return text


def _first_line(path: Path) -> str:
    return " ".join(_docstring(path).partition("\n\n")[0].split())


def _waits(path: Path) -> bool:
    tree = ast.parse(path.read_text())
    return any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(tree)) or any(
        isinstance(node, ast.Import) and any(name.name == "trio" for name in node.names) for node in ast.walk(tree)
    )


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, COLUMNS_MAX, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    sys.stdout.write(f"{PAGE.name} written\n")
    PAGE.write_text(written(PAGE.read_text()))
