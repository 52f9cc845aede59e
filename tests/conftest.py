"""What all fast tests share. There are thousands of them, so small savings add up."""

import gc
import signal
import sys
from collections.abc import Iterator

import hypothesis
import pytest
import structlog
from product import PACKAGES
from simulation.virtual_clock import VirtualClock


def pytest_configure() -> None:
    # What is logged is shown with a test that fails. Colours and times would take a seventh of the tests' time.
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.KeyValueRenderer(key_order=["event"])]
    )
    # Nothing here is timed, because a machine may be busy. Each run looks at other examples.
    busy = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("all", deadline=None, max_examples=50, suppress_health_check=busy)
    hypothesis.settings.load_profile("all")
    gc.disable()


def pytest_collection_finish() -> None:
    # None of thousands of tests and modules is garbage before the end.
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Fails the session if a package of ours was imported under its bare name: a second copy of every class."""
    bare = ({*PACKAGES} - {"cluster"}) & sys.modules.keys()  # compat_tests has a module `cluster`
    if bare:
        raise pytest.UsageError(f"imported without the tailrace prefix: {sorted(bare)}")


@pytest.fixture
def hangups_count() -> Iterator[None]:
    """The end of the terminal asks for a stop, also where these tests themselves were told to outlive theirs."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """The one of a seed; pytest-trio runs a test with a clock that it is given."""
    return VirtualClock()
