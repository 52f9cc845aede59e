"""Kills, stops and freezes nodes and the SC, and severs, silences and slows links, by a seeded plan under load.

No acknowledged record is lost, moved or duplicated, the order of each producer is kept, consumers see a single log, and
at the end all copies are the same. TAILRACE_CHAOS_SEED and TAILRACE_REPLICATION_SECONDS choose another or a longer
plan.
"""

import os

import pytest
from chaos.load import Load
from chaos.other_producers import EVERY_CLIENT
from chaos.plan import plan
from chaos.processes import harmed_cluster
from node_cluster import Watcher

SEED = int(os.environ.get("TAILRACE_CHAOS_SEED", "1"))
SECONDS = float(os.environ.get("TAILRACE_REPLICATION_SECONDS", "12"))
PARTITIONS = 3
TOPICS = {
    "live": {},
    "live-impatient": {"lrs.max.lag.ms": 500},
    "majority": {"replication.policy": "majority"},
    "nrw": {"replication.policy": "nrw:3,2,2"},
}
UNHARMED_SECONDS = (0.5, 6.0)
"""How long each target is unharmed between faults; most of the time, two of three nodes can reach each other."""


@pytest.fixture
def cluster(tmp_path):
    with harmed_cluster(tmp_path) as harmed:
        yield harmed


@pytest.mark.timeout(150 + 5 * SECONDS)
def test_no_copy_loses_acknowledged_records_whatever_dies(cluster):
    watcher = Watcher(cluster.bootstrap)
    for topic, configs in TOPICS.items():
        watcher.create_topic(topic, PARTITIONS, configs={"min.insync.replicas": 2} | configs)
    targets = {**cluster.targets, **cluster.link_targets, **cluster.full_isolation_targets}
    faults = plan(SEED, targets, SECONDS, UNHARMED_SECONDS)
    print(f"TAILRACE_CHAOS_SEED={SEED} TAILRACE_REPLICATION_SECONDS={SECONDS:g}", *faults, sep="\n")

    load = Load(cluster, dict.fromkeys(TOPICS, PARTITIONS), EVERY_CLIENT)
    try:
        cluster.carry_out(faults)
        assert cluster.complaints == []
        cluster.wait_until_well()
        load.wait_for_more()
        load.check()
        print(f"{load.acknowledged()} records")
    finally:
        load.stop()

    cluster.stop()
    assert cluster.complaints == []
    assert cluster.bug_reports() == []
    assert cluster.damage() == []
    assert cluster.leftover_processes() == []
    assert load.differences(load.ends()) == []
