"""What every client's tests stand on: a broker's address, fresh topics, and a broker of one's own to abuse.

By default the broker is Tailrace, one process per test worker. `--bootstrap HOST:PORT` (or TAILRACE_TEST_BOOTSTRAP)
names one that already runs; `--broker apache-kafka` runs the same tests against the original, which proves the tests.
"""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import private_broker, shared_broker
from cluster import Broker
from topics import CreateTopic, topic_creator

# The clients warn of themselves (deprecations, sockets left to the collector), and that is no failure of a broker:
# here for the conftest files that import them, in pytest_configure for the tests.
warnings.simplefilter("ignore")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compatibility")
    group.addoption(
        "--bootstrap",
        default=os.environ.get("TAILRACE_TEST_BOOTSTRAP"),
        metavar="HOST:PORT",
        help="a running broker to test, instead of one started for the session",
    )
    group.addoption(
        "--broker",
        choices=("tailrace", "apache-kafka"),
        default="tailrace",
        help="which broker to start where a test needs one of its own, or none is named",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore")


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the broker that the tests of this worker share."""
    with shared_broker(request, tmp_path_factory) as address:
        yield address


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, which it may stop, kill and start again."""
    with private_broker(request, tmp_path) as private:
        yield private


@pytest.fixture
def create_topic(request: pytest.FixtureRequest, bootstrap: str) -> CreateTopic:
    """`create_topic(partitions=3, cleanup_policy="compact")` makes a fresh topic and returns its name."""
    return topic_creator(bootstrap, request.node.name)


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    """A fresh topic of one partition."""
    return create_topic()
