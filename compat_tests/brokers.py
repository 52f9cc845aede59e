"""Starts brokers for fixtures: Tailrace or Apache Kafka, for one test or for many."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import Broker, Tailrace
from node_cluster import NodeCluster
from peer.apache_kafka import ApacheKafka
from peer.apache_kafka_cluster import ApacheKafkaCluster
from spu_cluster import SeparateCluster


def is_apache_kafka(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--broker") == "apache-kafka")


@contextmanager
def shared_broker(
    request: pytest.FixtureRequest, factory: pytest.TempPathFactory, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yields the address of a broker for many tests.

    It is the broker that `--bootstrap` names, or a new one that must stop cleanly at the end.
    """
    if given := request.config.getoption("--bootstrap"):
        yield given
        return
    with private_broker(request, factory.mktemp("broker"), settings) as broker:
        yield broker.bootstrap
        status = broker.stop()
        assert status == 0, f"the broker ended with status {status}"


@contextmanager
def private_broker(
    request: pytest.FixtureRequest, directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """Yields a broker that belongs to one test, which may stop, kill and restart it."""
    kind = ApacheKafka if is_apache_kafka(request) else Tailrace
    broker: Broker = kind(directory, settings=settings)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@contextmanager
def shared_nodes(
    request: pytest.FixtureRequest, factory: pytest.TempPathFactory, ours: Mapping[str, Any] | None = None, **both: Any
) -> Iterator[NodeCluster]:
    """Yields a running cluster of three nodes. All three must still run at the end.

    `both` are arguments for either kind of cluster, and `ours` are arguments for Tailrace's only.
    """
    directory = factory.mktemp("nodes")
    nodes: NodeCluster
    if is_apache_kafka(request):
        nodes = ApacheKafkaCluster(directory, **both)
    else:
        nodes = SeparateCluster(directory, **(ours or {}), **both)
    try:
        nodes.start()
        yield nodes
        nodes.stop()
    finally:
        nodes.kill()
