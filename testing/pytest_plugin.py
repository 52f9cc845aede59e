"""The pytest plug-in: the fixtures `tailrace_broker` and `tailrace_secure_broker`, and the broker's log in the report
of a test that fails.

pytest loads this module at its start in every project that has Tailrace installed, so it imports nothing heavy.
"""

import itertools
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .broker_process import Broker
    from .fixture_broker import FixtureBroker

_BROKERS = ("tailrace_broker", "tailrace_secure_broker")


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


@pytest.fixture(scope="session")
def _tailrace_shared_secure(tailrace_settings: Mapping[str, str]) -> "Iterator[tuple[Broker, Iterator[int]]]":
    """Yields the secure broker of this test worker, and the numbers of its tests."""
    from .broker_process import Broker

    with Broker(settings=tailrace_settings, secure=True) as broker:
        yield broker, itertools.count(1)


@pytest.fixture
def tailrace_broker(
    request: pytest.FixtureRequest, _tailrace_shared: "tuple[Broker, Iterator[int]]"
) -> "FixtureBroker":
    """Returns a running Kafka broker: its `bootstrap` address, and a new `topic` for this test."""
    return _for_test(request, *_tailrace_shared)


@pytest.fixture
def tailrace_secure_broker(
    request: pytest.FixtureRequest, _tailrace_shared_secure: "tuple[Broker, Iterator[int]]"
) -> "FixtureBroker":
    """Returns a running Kafka broker with TLS, logins and access rules: the user `admin`, and a new `topic`."""
    return _for_test(request, *_tailrace_shared_secure)


def _for_test(request: pytest.FixtureRequest, broker: "Broker", numbers: Iterator[int]) -> "FixtureBroker":
    from .broker_error import BrokerError
    from .fixture_broker import FixtureBroker

    if not broker.is_running:
        raise BrokerError(f"the broker of the tests has ended; its log:\n{broker.log()}")
    return FixtureBroker(broker, request.node.name, next(numbers))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what the broker has logged during a test to the report of its failure."""
    report = yield
    used = getattr(item, "funcargs", {})
    for broker in (used[name] for name in _BROKERS if name in used):
        if report.failed:
            report.sections.append(("tailrace broker log", broker.log() or "(nothing)\n"))
    return report
