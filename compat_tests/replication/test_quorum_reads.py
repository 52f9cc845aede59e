"""Quorum reads of acknowledged records while there is no leader: the leader is killed, and the SC is frozen."""

import json

import pytest
from clients.librdkafka import produce
from cluster import run_to_end, tailrace, tailrace_output
from confluent_kafka import Producer
from freezing import frozen
from node_cluster import Watcher
from spu_cluster import SeparateCluster

RECORDS = 500
POLICIES = ("live", "majority", "nrw:3,2,2")
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cluster(tmp_path):
    cluster = SeparateCluster(tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def test_everything_acknowledged_is_read_without_a_leader(cluster):
    watcher = Watcher(cluster.bootstrap)
    values = [f"{number}".encode() for number in range(RECORDS)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    topics = {policy: policy.replace(":", "-").replace(",", "-") for policy in POLICIES}
    for policy, topic in topics.items():
        watcher.create_topic(topic, configs={"replication.policy": policy})
        produce(producer, topic, values, partition=0)
    leaders = [watcher.leader(topic) for topic in topics.values()]
    with frozen([cluster.controller.pid]):
        cluster.kill_node(leaders[0])
        for topic in topics.values():
            assert _read(cluster, topic) == values
        others = [spu for spu in cluster.ids if spu != leaders[0]]
        cluster.kill_node(others[0])
        status, output = run_to_end(tailrace("consume", "majority", "--quorum", "--bootstrap", cluster.bootstrap))
        assert status == 1 and "majority/0: too few replicas respond to tell what is acknowledged" in output
        assert f"SPU {leaders[0]}" in output and f"SPU {others[0]}" in output and f"SPU {others[1]}" not in output
        assert _read(cluster, "live") == values, "any live replica has everything"


def _read(cluster, topic):
    lines = tailrace_output("consume", topic, "--quorum", "--bootstrap", cluster.bootstrap).splitlines()
    return [json.loads(line)["value"].encode() for line in lines]
