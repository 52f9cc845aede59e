"""Every package says what lives in it, and file names are unique in the product."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from product import PACKAGES, ROOT

NAMED_AFTER_AN_API = (
    "protocol/messages/",
    "protocol/internal/",
    "protocol/group_records/",
    "protocol/transaction_records/",
)
FILES_PER_PACKAGE_MAX = 24


def _sources() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def _written_by_hand() -> list[str]:
    return [source for source in _sources() if not source.startswith(NAMED_AFTER_AN_API)]


def test_every_package_says_in_a_sentence_or_two_what_lives_in_it() -> None:
    folders = {str(Path(source).parent) for source in _sources()}
    for folder in sorted(folders):
        text = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text()))
        assert text is not None and text.rstrip().endswith("."), f"write a docstring for {folder}/__init__.py"


def test_a_file_name_means_one_file() -> None:
    names = Counter(
        Path(source).name
        for source in _written_by_hand()
        if "/handlers/" not in source and not source.endswith("/__init__.py")
    )
    assert not [name for name, count in names.items() if count > 1]


@pytest.mark.parametrize("package", sorted({str(Path(source).parent) for source in _written_by_hand()}))
def test_a_package_is_small_enough_to_take_in_at_a_glance(package: str) -> None:
    files = [path for path in (ROOT / package).glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= FILES_PER_PACKAGE_MAX


def test_every_package_is_named_wherever_packages_are_listed() -> None:
    """Otherwise a new package is missing from the installation, from the image, or from the checks of the sources."""
    linked = {path.name for path in (ROOT / "src" / "tailrace").iterdir() if path.is_symlink()}
    in_image = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert linked == set(PACKAGES)
    assert linked <= in_image
