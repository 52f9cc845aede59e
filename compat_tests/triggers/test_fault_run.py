"""Kills, freezes and stops replicas, workers, SPUs and the SC while a trigger handles records of 12 shards.

Every record is handled, no two replicas handle one shard at once, and only what was not committed is repeated. By
default each of the main faults happens once. `make soak` sets TAILRACE_SOAK_RECORDS: then all faults happen in random
order until so many records are handled. TAILRACE_SOAK_SEED chooses another order.
"""

import os
import random
import time

import pytest
from spu_cluster import SeparateCluster
from triggers.faults import ALL, SHORT
from triggers.handled import repeats
from triggers.running_replicas import SHARDS, RunningTrigger

RECORDS = int(os.environ.get("TAILRACE_SOAK_RECORDS", "0"))
SEED = int(os.environ.get("TAILRACE_SOAK_SEED", "1"))
RECORDS_PER_SECOND_MIN = 100


def faults(trigger):
    """Yields the main faults, or all of them again and again until enough records are produced."""
    if not RECORDS:
        yield from enumerate(SHORT)
        return
    chance = random.Random(SEED)
    while trigger.produced() < RECORDS:
        yield from ((chance.randrange(SHARDS), fault) for fault in chance.sample(ALL, len(ALL)))


@pytest.fixture
def cluster(tmp_path):
    made = SeparateCluster(tmp_path)
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.kill()


@pytest.fixture
def trigger(cluster, tmp_path):
    running = RunningTrigger(cluster, tmp_path)
    try:
        running.start()
        yield running
    finally:
        running.end()


@pytest.mark.timeout(300 + RECORDS // RECORDS_PER_SECOND_MIN)
def test_every_record_is_handled_by_one_replica_at_a_time_whatever_dies(cluster, trigger):
    print(f"TAILRACE_SOAK_RECORDS={RECORDS} TAILRACE_SOAK_SEED={SEED}")
    trigger.catch_up()
    for number, fault in faults(trigger):
        started = time.monotonic()
        fault(cluster, trigger, number)
        trigger.catch_up()
        print(f"{fault.__name__} {number}: {time.monotonic() - started:.1f} s")
    records = trigger.stop_producing()
    trigger.stop()
    print(f"{sum(map(len, records.values()))} records, {len(repeats(trigger.handled()))} handled twice")
    found = trigger.violations(records)
    print(*found, sep="\n")
    assert found == []
    assert trigger.leftover_workers() == []
    assert trigger.tracebacks() == []
