"""The page about troubleshooting quotes errors as the programs print them."""

import ast
import re
from collections.abc import Iterator

import pytest
from product import PACKAGES, ROOT

from tailrace.protocol.error_codes import ErrorCode

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
GENERATED = ("protocol/messages/", "protocol/internal/", "protocol/group_records/", "protocol/transaction_records/")
OF_CLIENTS = {"NoBrokersAvailable", "Connection refused", "Broker may not be available"}
"""Texts of clients, which do not occur in our code."""
STATUSES = {"Init", "Offline", "InsufficientResources"}
"""Statuses of objects, as commands show them."""


def _quotes() -> list[str]:
    """Returns what the first column of the tables quotes, except commands, settings, events and paths."""
    quotes = set()
    for row in re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE):
        quotes |= set(re.findall(r"`([^`]+)`", row))
    return sorted(
        quote
        for quote in quotes - OF_CLIENTS - STATUSES
        if not re.match(r"tailrace |curl|serve |/|[a-z]+([._][a-z]+)+$|[A-Z_]+$|HOME$", quote)
    )


def _texts() -> Iterator[str]:
    """Yields every text in the code. Three dots stand for values."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.relative_to(ROOT).as_posix().startswith(GENERATED):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(each.value if isinstance(each, ast.Constant) else "…" for each in node.values)  # type: ignore[misc]
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
                    yield node.value.decode(errors="replace")


ALL_TEXTS = "\n".join(_texts())
ALL_TEXTS += "\n" + ALL_TEXTS.replace("the … at …", "the SC at … the broker at …")
"""All texts, also with the kinds of servers that take the place of a value."""


@pytest.mark.parametrize("quote", _quotes())
def test_a_quoted_error_is_one_that_the_programs_print(quote: str) -> None:
    for part in quote.split("…"):
        assert part.strip(" :") in ALL_TEXTS, f"no program says {part!r}"


def test_enough_errors_are_quoted() -> None:
    assert len(_quotes()) > 15


def test_quoted_error_codes_exist() -> None:
    codes = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", PAGE)) - {"TAILRACE_SC", "TAILRACE_BOOTSTRAP"}
    assert len(codes) > 10
    assert codes <= {code.name for code in ErrorCode}
