"""Replicas that do not respond during an election, but are not lost: one of them leads once it responds."""

import os
import signal

import pytest
from freezing import frozen
from node_cluster import Watcher
from spu_cluster import SeparateCluster, objects
from waiting import wait_until

PATIENT = ("--set=broker.session.timeout.ms=60000", "--reconciliation", "3600")
"""Options with which a frozen SPU stays online, and nothing is decided without a new event."""
PATIENCE_SECONDS = 40
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cluster(tmp_path):
    cluster = SeparateCluster(tmp_path, sc_options=PATIENT)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


@pytest.mark.parametrize(("copies", "policy"), [(3, "live"), (3, "majority"), (2, "live")])
def test_candidates_that_were_frozen_when_the_leader_was_lost(cluster, copies, policy):
    """If only one candidate is left, it is elected without being asked."""
    watcher = Watcher(cluster.bootstrap)
    watcher.create_topic("t", copies=copies, configs={"replication.policy": policy})
    leader = watcher.leader("t")

    def partition():
        (found,) = objects(cluster.sc, "partition")
        return found

    def is_led_as(resolution):
        return partition()["status"]["resolution"] == resolution

    others = [cluster.spu_pid(spu) for spu in partition()["spec"]["replicas"] if spu != leader]

    with frozen(others):
        os.kill(cluster.spu_pid(leader), signal.SIGKILL)
        wait_until(lambda: is_led_as("Offline"), PATIENCE_SECONDS, "nobody answers")
    wait_until(lambda: is_led_as("Online"), PATIENCE_SECONDS, "one leads")
    assert watcher.leader_other_than(leader, "t") != leader
