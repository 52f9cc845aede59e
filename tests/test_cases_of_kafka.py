"""docs/security.md: each case of Kafka's tests that Tailrace has as well names a test that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEADS = ("| Case | Kafka | Ours | Test |", "| Vulnerability | What must not happen | Test |")
WITHOUT_TEST = ("not available", "cannot be expressed", "no client is served before", "our clients ")
"""What the column of Tailrace says in rows that have no test."""


def _rows() -> list[list[str]]:
    """Returns the cells of the rows of all tables about Kafka's tests."""
    rows: list[list[str]] = []
    is_matrix = False
    for line in (ROOT / "docs/security.md").read_text().splitlines():
        if not line.startswith("|"):
            is_matrix = False
        elif line in HEADS:
            is_matrix = True
        elif is_matrix and not line.startswith("|---"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


@pytest.fixture(scope="module")
def defined() -> set[str]:
    """Returns the names of all test functions and of all files with tests."""
    names: set[str] = set()
    for folder in ("tests", "compat_tests"):
        for path in (ROOT / folder).rglob("test_*.py"):
            names.add(path.name)
            names.update(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    return names


def test_every_test_that_is_named_exists(defined: set[str]) -> None:
    named = {name for row in _rows() for name in re.findall(r"test_\w+(?:\.py)?", row[-1])}
    assert len(named) > 100
    assert named - defined == set()


def test_every_case_that_we_have_names_its_test() -> None:
    missing = [row[0] for row in _rows() if "test_" not in row[-1] and not row[-2].startswith(WITHOUT_TEST)]
    assert missing == []
