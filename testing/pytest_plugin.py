"""The pytest plug-in: the fixture `tailrace_broker`, and the broker's log in the report of a test that fails.

pytest loads this module at its start in every project that has Tailrace installed, so it imports nothing heavy.
"""

import itertools
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .broker_process import Broker
    from .fixture_broker import FixtureBroker

_BROKER = "tailrace_broker"


@pytest.fixture(scope="session")
def tailrace_settings() -> Mapping[str, str]:
    """Returns the broker configs of the broker that tests share; override it in conftest.py to change them."""
    return {}


@pytest.fixture(scope="session")
def _tailrace_shared(tailrace_settings: Mapping[str, str]) -> "Iterator[tuple[Broker, Iterator[int]]]":
    """Yields the broker of this test worker, and the numbers of its tests."""
    from .broker_process import Broker

    with Broker(settings=tailrace_settings) as broker:
        yield broker, itertools.count(1)


@pytest.fixture
def tailrace_broker(
    request: pytest.FixtureRequest, _tailrace_shared: "tuple[Broker, Iterator[int]]"
) -> "FixtureBroker":
    """Returns a running Kafka broker: its `bootstrap` address, and a new `topic` for this test."""
    from .broker_error import BrokerError
    from .fixture_broker import FixtureBroker

    broker, numbers = _tailrace_shared
    if not broker.is_running:
        raise BrokerError(f"the broker of the tests has ended; its log:\n{broker.log()}")
    return FixtureBroker(broker, request.node.name, next(numbers))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what the broker has logged during a test to the report of its failure."""
    report = yield
    broker = getattr(item, "funcargs", {}).get(_BROKER)
    if report.failed and broker is not None:
        report.sections.append(("tailrace broker log", broker.log() or "(nothing)\n"))
    return report
