"""Replicas that do not answer when a leader is wanted, and are not lost: one of them leads once it answers."""

import os
import signal

import pytest
from node_cluster import Watcher
from spu_cluster import SeparateCluster, objects
from waiting import wait_until

PATIENT = ("--set=broker.session.timeout.ms=60000", "--reconciliation", "3600")
"""Whoever is frozen does not count as gone, and nothing is looked at again without a reason."""
PATIENCE_SECONDS = 40
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cluster(tmp_path):
    cluster = SeparateCluster(tmp_path, sc_options=PATIENT)
    cluster.start()
    yield cluster
    cluster.kill()


@pytest.mark.parametrize("policy", ["live", "majority"])
def test_candidates_that_were_frozen_when_the_leader_was_lost(cluster, policy):
    watcher = Watcher(cluster.bootstrap)
    watcher.create_topic("t", configs={"replication.policy": policy})
    leader = watcher.leader("t")
    others = [cluster.spu_pid(spu) for spu in cluster.ids if spu != leader]

    def is_led_as(resolution):
        (partition,) = objects(cluster.sc, "partition")
        return partition["status"]["resolution"] == resolution

    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    os.kill(cluster.spu_pid(leader), signal.SIGKILL)
    wait_until(lambda: is_led_as("Offline"), PATIENCE_SECONDS, "nobody answers")
    for pid in others:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: is_led_as("Online"), PATIENCE_SECONDS, "one leads")
    assert watcher.leader_other_than(leader, "t") != leader
