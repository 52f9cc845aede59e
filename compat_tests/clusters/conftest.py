"""Clusters of three SPUs in both kinds: shared ones, and one of a test's own to abuse."""

import uuid

import pytest
from kafka import KafkaAdminClient
from spu_cluster import PATIENCE, ManagedCluster, SeparateCluster

KINDS = {"separate": SeparateCluster, "up": ManagedCluster}


@pytest.fixture(scope="module", params=sorted(KINDS))
def cluster(request, tmp_path_factory):
    """One that all tests of a module share, of each kind."""
    made = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    made.start()
    try:
        yield made
        made.stop()
    finally:
        made.kill()


@pytest.fixture
def separate(tmp_path):
    """Not started yet."""
    made = SeparateCluster(tmp_path, sc_options=PATIENCE)
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def managed(tmp_path):
    """Not started yet."""
    made = ManagedCluster(tmp_path)
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def make_admin():
    """Admin clients of kafka-python, closed at the end."""
    made = []

    def make(bootstrap):
        made.append(KafkaAdminClient(bootstrap_servers=bootstrap))
        return made[-1]

    yield make
    for admin in made:
        admin.close()


@pytest.fixture
def name(request):
    """For a topic, and nobody else's."""
    return f"{request.node.originalname}-{uuid.uuid4().hex[:8]}"
