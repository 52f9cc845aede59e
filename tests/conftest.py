"""Fails the session if a package of ours was imported under its bare name: a second copy of every class."""

import sys

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    bare = {"protocol", "runtime", "storage", "broker", "controller", "cli"} & sys.modules.keys()
    if bare:
        raise pytest.UsageError(f"imported without the tailrace prefix: {sorted(bare)}")
