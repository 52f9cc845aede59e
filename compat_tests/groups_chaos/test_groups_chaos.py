"""Kills, stops and freezes SPUs, and severs, silences and slows links, by a seeded plan while groups work.

No acknowledged commit is lost or moved back, no partition has two owners, and each group reads every record.
TAILRACE_CHAOS_SEED and TAILRACE_GROUPS_SECONDS choose another or a longer plan.
"""

import os

import pytest
from chaos.group_load import SESSION_MS, GroupLoad
from chaos.plan import plan
from chaos.processes import harmed_cluster
from groups.members import Flavour
from node_cluster import Watcher

SEED = int(os.environ.get("TAILRACE_CHAOS_SEED", "1"))
SECONDS = float(os.environ.get("TAILRACE_GROUPS_SECONDS", "12"))
PARTITIONS = 4
UNHARMED_SECONDS = (0.5, 8.0)
CHURN_SECONDS = 2.5
SETTINGS = {
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}
FLAVOURS = [
    Flavour("kafka-python", "range"),
    Flavour("confluent", "range"),
    Flavour("confluent-consumer", "uniform"),
]


@pytest.fixture
def cluster(tmp_path):
    with harmed_cluster(tmp_path, settings=SETTINGS) as harmed:
        yield harmed


@pytest.mark.timeout(300 + 5 * SECONDS)
def test_groups_lose_nothing_and_share_nothing_whatever_dies(cluster):
    Watcher(cluster.bootstrap).create_topic("work", PARTITIONS, configs={"min.insync.replicas": 2})
    targets = {**cluster.spu_targets, **cluster.link_targets, **cluster.isolation_targets}
    faults = plan(SEED, targets, SECONDS, UNHARMED_SECONDS)
    print(f"TAILRACE_CHAOS_SEED={SEED} TAILRACE_GROUPS_SECONDS={SECONDS:g}", *faults, sep="\n")

    load = GroupLoad(cluster.bootstrap, "work", PARTITIONS, FLAVOURS, SEED, CHURN_SECONDS)
    try:
        load.begin()
        cluster.carry_out(faults)
        assert cluster.complaints == []
        cluster.wait_until_well()
        load.check()
        print(load)
    finally:
        load.stop()

    cluster.stop()
    assert cluster.complaints == []
    assert cluster.bug_reports() == []
    assert cluster.damage() == []
    assert cluster.leftover_processes() == []
