"""Fixtures for all compatibility tests: a broker's address, new topics, and a broker for one test alone.

By default the broker is Tailrace, with one process per test worker. `--bootstrap HOST:PORT` (or
TAILRACE_TEST_BOOTSTRAP) names a broker that already runs. `--broker apache-kafka` runs the same tests against Apache
Kafka, which proves that the tests expect the right thing.
"""

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import private_broker, shared_broker
from cluster import Broker
from topics import CreateTopic, topic_creator

# The clients cause warnings in their own code (deprecations, sockets left to the garbage collector), which say nothing
# about the broker. This line covers the conftest files that import the clients, and pytest_configure covers the tests.
warnings.simplefilter("ignore")

GARBAGE_ROUNDS = 5
"""How often pytest collects garbage at its end: what one round frees may make more garbage."""


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
        help="which broker to start if a test needs its own, or if --bootstrap is not given",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore")


def pytest_sessionfinish() -> None:
    """Collects what the clients left to the garbage collector.

    pytest would collect it after the session, when the filters of pyproject.toml make errors of the warnings.
    """
    with warnings.catch_warnings(action="ignore"):
        for _ in range(GARBAGE_ROUNDS):
            gc.collect()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of the broker that the tests of this worker share."""
    with shared_broker(request, tmp_path_factory) as address:
        yield address


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Yields a broker that only this test uses, and that it may stop, kill and restart."""
    with private_broker(request, tmp_path) as private:
        yield private


@pytest.fixture
def create_topic(request: pytest.FixtureRequest, bootstrap: str) -> CreateTopic:
    """Returns a function that makes a new topic, as in `create_topic(partitions=3, cleanup_policy="compact")`."""
    return topic_creator(bootstrap, request.node.name)


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    """Returns the name of a new topic with one partition."""
    return create_topic()
