"""A connection that sends bytes, and the name of a group."""

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
    """A fresh one, which nobody has heard of; whoever coordinates it takes requests."""
    name = f"group-{uuid.uuid4()}"
    await_coordinator(bootstrap, name)
    return name
