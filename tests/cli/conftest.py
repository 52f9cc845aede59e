from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command sets up the logs of its process, on a standard error that ends with its test."""
    yield
    structlog.reset_defaults()
