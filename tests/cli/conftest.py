from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Resets the logs after each test, because a command configures them for the standard error of its test."""
    yield
    structlog.reset_defaults()
