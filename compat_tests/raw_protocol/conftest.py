"""Fixtures for raw connections that send bytes, and for names of groups."""

import uuid
from collections.abc import Iterator

import pytest
from raw import Connection, connect
from raw_groups import await_coordinator


@pytest.fixture
def connection(bootstrap: str) -> Iterator[Connection]:
    with connect(bootstrap) as opened:
        yield opened


@pytest.fixture
def group(bootstrap: str) -> str:
    """Returns the name of a new group whose coordinator accepts requests."""
    name = f"group-{uuid.uuid4()}"
    await_coordinator(bootstrap, name)
    return name
