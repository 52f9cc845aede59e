"""Finds the audit logs of servers in a directory."""

import argparse
import os.path
from collections.abc import Iterator

from tailrace.runtime.files import Files
from tailrace.server.auditing.audit_files import DIRECTORY, log_names

_DEPTH_MAX = 3
"""How deep below the given directory a data directory may be: `up` keeps those of several servers in one."""


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that names audit logs."""
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", help="A data directory, its audit directory, or one above it."
    )


def nothing_found(directory: str) -> str:
    """Returns the sentence about a directory without audit logs."""
    return f"there is no audit log in {directory}; turn it on with audit.log.enable=true"


def audit_directories(files: Files, directory: str) -> list[str]:
    """Returns the directories with audit logs in or below a directory, in the order of their paths."""
    return list(_found(files, os.path.abspath(directory), _DEPTH_MAX))


def _found(files: Files, directory: str, depth: int) -> Iterator[str]:
    if log_names(files, directory):
        yield directory
        return
    for name in files.list(directory):
        below = os.path.join(directory, name)
        if depth and (name == DIRECTORY or not name.startswith("topics")) and os.path.isdir(below):
            yield from _found(files, below, depth - 1)


def lines_of(content: bytes) -> list[bytes]:
    """Returns the lines of a file, each with its end; the last one may have none."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
