"""Fixtures for three nodes and a topic with three copies, under load from stock clients during each test."""

import re
import uuid

import pytest
from brokers import shared_nodes
from chaos.load import Load
from node_cluster import Watcher
from peer.apache_kafka_cluster import ApacheKafkaCluster

PARTITIONS = 3


@pytest.fixture(scope="module")
def shared(request, tmp_path_factory):
    """Yields the nodes that the tests of a module share."""
    with shared_nodes(request, tmp_path_factory, ours={"has_links": True}) as made:
        yield made


@pytest.fixture
def nodes(shared):
    """Yields the nodes, and afterwards makes them healthy for the next test.

    Nodes that the test has left stopped are restarted. A node that was isolated or frozen may still have to connect to
    the controller again, and until then the requests that it forwards fail.
    """
    yield shared
    for node in shared.ids:
        if not shared.is_running(node):
            shared.start_node(node)
    Watcher(shared.bootstrap).wait_until_healthy()


@pytest.fixture
def links(nodes):
    """Yields the links between the nodes, which a test may harm, and heals them afterwards."""
    links = getattr(nodes, "links", None)
    if links is None:
        pytest.skip("the nodes of Apache Kafka have no proxy between them")
    yield links
    links.restore_all()


@pytest.fixture
def watcher(nodes):
    return Watcher(nodes.bootstrap)


@pytest.fixture
def topic(request, nodes, watcher):
    name = f"{re.sub('[^a-z0-9]+', '-', request.node.name)[:60]}-{uuid.uuid4().hex[:8]}"
    impatience = {} if isinstance(nodes, ApacheKafkaCluster) else {"lrs.max.lag.ms": 1000}
    watcher.create_topic(name, PARTITIONS, configs={"min.insync.replicas": 2} | impatience)
    return name


@pytest.fixture
def load(nodes, topic):
    load = Load(nodes, {topic: PARTITIONS})
    yield load
    load.stop()
