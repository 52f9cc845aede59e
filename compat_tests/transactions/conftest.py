"""Fixtures for tests of transactions that need three nodes, which all tests share."""

import pytest
from brokers import shared_nodes
from node_cluster import Watcher


@pytest.fixture(scope="package")
def shared(request, tmp_path_factory):
    """Yields the nodes that the tests of this folder share."""
    with shared_nodes(request, tmp_path_factory) as made:
        yield made


@pytest.fixture
def nodes(shared):
    """Yields the nodes, and afterwards restarts those that the test has left killed."""
    yield shared
    for node in shared.ids:
        if not shared.is_running(node):
            shared.start_node(node)
    Watcher(shared.bootstrap).wait_until_healthy()
