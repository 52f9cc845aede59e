"""Brokers that fixtures start: of the kind that the command line names, for many tests or for one."""

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


def tests_the_original(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--broker") == "apache-kafka")


@contextmanager
def shared_broker(
    request: pytest.FixtureRequest, factory: pytest.TempPathFactory, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The address of one that is stopped cleanly in the end, or of the one that the command line names."""
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
    """One that its test may stop, kill and start again."""
    kind = ApacheKafka if tests_the_original(request) else Tailrace
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
    """Three, which all run in the end; `both` is said to clusters of either kind, `ours` to Tailrace's alone."""
    directory = factory.mktemp("nodes")
    nodes: NodeCluster
    if tests_the_original(request):
        nodes = ApacheKafkaCluster(directory, **both)
    else:
        nodes = SeparateCluster(directory, **(ours or {}), **both)
    try:
        nodes.start()
        yield nodes
        nodes.stop()
    finally:
        nodes.kill()
