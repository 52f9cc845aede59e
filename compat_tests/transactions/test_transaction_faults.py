"""Kills and freezes the coordinators of transactions, leaders and the SC under transactional clients.

Every committed transaction is stored whole, once and in order, nothing of an aborted one is visible, and records are
copied exactly once. TAILRACE_TRANSACTION_FAULTS and TAILRACE_CHAOS_SEED choose a longer run, with faults in random
order.
"""

import os
import random

import pytest
from chaos.plan import Fault, Harm
from chaos.processes import HarmedCluster, harmed_cluster
from chaos.transaction_load import JavaTransactions, KafkaPythonTransactions, LibrdkafkaTransactions, TransactionLoad
from node_cluster import Watcher

from .transaction_readers import coordinator

SEED = int(os.environ.get("TAILRACE_CHAOS_SEED", "1"))
FAULTS = int(os.environ.get("TAILRACE_TRANSACTION_FAULTS", "0"))
PARTITIONS = 3
CLIENTS = (LibrdkafkaTransactions, KafkaPythonTransactions, JavaTransactions)
DEAD_SECONDS = 2.5
"""How long a process is away, which is longer than an SPU's lease of 1.5 seconds."""
STORY = (("coordinator", Harm.KILL), ("leader", Harm.KILL), ("coordinator", Harm.FREEZE), ("sc", Harm.KILL))
MORE = (
    *STORY,
    *(("coordinator", Harm.STOP), ("leader", Harm.FREEZE), ("leader", Harm.STOP), ("sc", Harm.FREEZE)),
    # Clients still reach the coordinator or the leader, and no other server does.
    *(("isolated coordinator", Harm.SILENCE), ("isolated coordinator", Harm.SEVER), ("isolated leader", Harm.SILENCE)),
)


@pytest.fixture
def cluster(tmp_path):
    with harmed_cluster(tmp_path) as harmed:
        yield harmed


def _target(role: str, watcher: Watcher) -> str:
    if role == "sc":
        return "sc-1"
    spu = coordinator(watcher, "librdkafka-0") if "coordinator" in role else watcher.leader("work", 0)
    return f"full_isolation-{spu}" if "isolated" in role else f"spu-{spu}"


def _faults() -> list[tuple[str, Harm, float]]:
    if not FAULTS:
        return [(role, harm, DEAD_SECONDS) for role, harm in STORY]
    chance = random.Random(SEED)
    return [(*chance.choice(MORE), chance.uniform(0.2, 2 * DEAD_SECONDS)) for _ in range(FAULTS)]


@pytest.mark.timeout(240 + 40 * FAULTS)
def test_transactions_are_whole_whatever_dies(cluster: HarmedCluster) -> None:
    watcher = Watcher(cluster.bootstrap)
    for topic in ("work", "source", "copies"):
        watcher.create_topic(topic, PARTITIONS, configs={"min.insync.replicas": 2})
    load = TransactionLoad(cluster.bootstrap, PARTITIONS, CLIENTS)
    try:
        for role, harm, seconds in _faults():
            fault = Fault(0, _target(role, watcher), harm, seconds)
            print(f"{role}: {fault}", flush=True)
            cluster.carry_out([fault])
            load.wait_for_more()
            cluster.wait_until_well()
        assert cluster.complaints == []
        load.check()
    finally:
        print(load)
        load.stop()

    cluster.stop()
    assert cluster.complaints == []
    assert cluster.bug_reports() == []
    assert cluster.damage() == []
    assert cluster.leftover_processes() == []
