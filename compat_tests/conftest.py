"""What every client's tests stand on: a broker's address, fresh topics, and a broker of one's own to abuse.

By default the broker is Tailrace, one process per test worker. `--bootstrap HOST:PORT` (or TAILRACE_TEST_BOOTSTRAP)
names one that already runs; `--broker apache-kafka` runs the same tests against the original, which proves the tests.
"""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Broker, Tailrace
from peer.apache_kafka import ApacheKafka
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


def start_broker(request: pytest.FixtureRequest, directory: Path) -> Broker:
    kind: type[Broker] = ApacheKafka if request.config.getoption("--broker") == "apache-kafka" else Tailrace
    broker = kind(directory)  # type: ignore[call-arg] # a Protocol says nothing of how it is made
    broker.start()
    return broker


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the broker that the tests of this worker share."""
    if given := request.config.getoption("--bootstrap"):
        yield given
        return
    broker = start_broker(request, tmp_path_factory.mktemp("broker"))
    try:
        yield broker.bootstrap
    finally:
        status = broker.stop()
    assert status == 0, f"the broker ended with status {status}"


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, which it may stop, kill and start again."""
    private = start_broker(request, tmp_path)
    try:
        yield private
    finally:
        private.kill()


@pytest.fixture
def create_topic(request: pytest.FixtureRequest, bootstrap: str) -> CreateTopic:
    """`create_topic(partitions=3, cleanup_policy="compact")` makes a fresh topic and returns its name."""
    return topic_creator(bootstrap, request.node.name)


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    """A fresh topic of one partition."""
    return create_topic()
