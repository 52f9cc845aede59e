"""Fixtures for clusters of three SPUs of both kinds: shared ones, and one for a single test."""

import uuid

import pytest
from kafka import KafkaAdminClient
from spu_cluster import PATIENCE, ManagedCluster, SeparateCluster

KINDS = {"separate": SeparateCluster, "up": ManagedCluster}


@pytest.fixture(scope="module", params=sorted(KINDS))
def cluster(request, tmp_path_factory):
    """Yields a cluster of each kind, which all tests of a module share."""
    made = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    made.start()
    try:
        yield made
        made.stop()
    finally:
        made.kill()


@pytest.fixture
def separate(tmp_path):
    """Yields a cluster of separate processes that is not started yet."""
    made = SeparateCluster(tmp_path, sc_options=PATIENCE)
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def managed(tmp_path):
    """Yields a cluster of `tailrace up` that is not started yet."""
    made = ManagedCluster(tmp_path)
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def make_admin():
    """Yields a function that makes kafka-python's admin clients, which are closed at the end."""
    made = []

    def make(bootstrap):
        made.append(KafkaAdminClient(bootstrap_servers=bootstrap))
        return made[-1]

    yield make
    for admin in made:
        admin.close()


@pytest.fixture
def name(request):
    """Returns a unique name for a topic."""
    return f"{request.node.originalname}-{uuid.uuid4().hex[:8]}"
