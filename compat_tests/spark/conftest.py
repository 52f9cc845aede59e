"""Fixtures that all Spark tests share: the session, the Kafka clients, and the readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import is_apache_kafka, shared_broker
from peer.apache_kafka import SHORT_LIVED, ApacheKafka
from pyspark.sql import SparkSession

from .cluster_commands import ClusterCommands
from .kafka_side import KafkaSide
from .session import start_session
from .spark_side import Job, SparkSide

SETTINGS = {"log.cleaner.backoff.ms": "100"}
"""Settings of a log cleaner that runs often, so that a log that it leaves alone for a moment is finished."""
TIMEOUT_SECONDS = 240
"""The time limit of a test, which includes the session's start and the download of jars."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shared_broker(request, tmp_path_factory, SETTINGS) as address:
        yield address


@pytest.fixture(scope="session")
def apache_kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of a node of Apache Kafka, which jobs must work with as well."""
    if is_apache_kafka(request):
        yield request.getfixturevalue("bootstrap")
        return
    node = ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), SHORT_LIVED)
    try:
        node.start()
        yield node.bootstrap
    finally:
        node.kill()


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_side(bootstrap: str) -> KafkaSide:
    return KafkaSide(bootstrap)


@pytest.fixture(scope="session")
def spark_side(spark_session: SparkSession, bootstrap: str) -> SparkSide:
    return SparkSide(spark_session, bootstrap)


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterCommands]:
    """Runs commands on executors that are processes of their own."""
    commands = ClusterCommands(tmp_path_factory.mktemp("spark-cluster"))
    yield commands
    commands.stop()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "checkpoint")
