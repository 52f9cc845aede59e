"""Kills drivers, executors, workers and leaders, deletes records and fills the disk while a trigger runs on Spark.

Then a last run handles the rest. The function got every committed record, in the order of each shard apart from
repeats, and none that was aborted; every event has its output, exactly once for readers of committed records, and the
marks are the ends of the log. By default some faults happen to one run. `make soak SOAK=engine` sets
TAILRACE_SOAK_FAULTS: then so many faults happen in random order, and again to a trigger that stores output at least
once. Last, a backfill is killed as often. TAILRACE_SOAK_SEED chooses another order.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.transaction_load import LibrdkafkaTransactions
from node_cluster import Watcher
from pipeline.common_faults import kill_processes_of_executors, small_disk
from pipeline.engine_faults import ALL, SHORT, Fault, FaultyEngine
from pipeline.running_engine import AT_LEAST_ONCE, EXACTLY_ONCE, OUTPUT, OUTPUT_PARTITIONS, PARTITIONS, PLACES, TOPIC
from pipeline.running_job import LOCAL, SEPARATE
from spu_cluster import SeparateCluster
from waiting import wait_until

FAULTS = int(os.environ.get("TAILRACE_SOAK_FAULTS", "0"))
SEED = int(os.environ.get("TAILRACE_SOAK_SEED", "1"))
SECONDS_PER_FAULT_MAX = 600
TRANSACTIONS_PER_FAULT = 40


@pytest.fixture
def faulty(cluster: SeparateCluster, guarantee: str, tmp_path: Path) -> Iterator[FaultyEngine]:
    watcher = Watcher(cluster.bootstrap)
    for topic, partitions in ((TOPIC, PARTITIONS), (OUTPUT, OUTPUT_PARTITIONS)):
        watcher.create_topic(topic, partitions, configs={"min.insync.replicas": 2})
    with small_disk(tmp_path / "disk") as disk:
        made = FaultyEngine(cluster, tmp_path, disk, random.Random(SEED), guarantee)
        try:
            yield made
        finally:
            made.engine.end()


def faults(chance: random.Random) -> Iterator[Fault]:
    if not FAULTS:
        yield from SHORT
        return
    left = FAULTS
    while left > 0:
        chosen = chance.sample(ALL, len(ALL))[:left]
        yield from chosen
        left -= len(chosen)


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_LEAST_ONCE] if FAULTS else [EXACTLY_ONCE])
@pytest.mark.timeout(900 + FAULTS * SECONDS_PER_FAULT_MAX)
def test_every_committed_record_is_handled_in_order_whatever_fails(
    faulty: FaultyEngine, cluster: SeparateCluster
) -> None:
    print(f"TAILRACE_SOAK_FAULTS={FAULTS} TAILRACE_SOAK_SEED={SEED}")
    producer = LibrdkafkaTransactions("orders", cluster.bootstrap, PLACES, pause_seconds=0.05)
    for fault in faults(faulty.chance):
        started = time.monotonic()
        fault(faulty)
        print(f"{fault.__name__}: {time.monotonic() - started:.1f} s")
    producer.stop()
    assert producer.errors == []
    faulty.engine.finish()
    seen = faulty.engine.seen()
    print(f"{len(seen)} events, {len(seen) - len({(each.shard, each.offset) for each in seen})} of them repeats")
    assert faulty.engine.contradictions(faulty.starts) == []


@pytest.mark.skipif(not FAULTS, reason="takes minutes; `make soak SOAK=engine` runs it")
@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE])
@pytest.mark.timeout(900 + FAULTS * SECONDS_PER_FAULT_MAX)
def test_a_backfill_stores_each_output_once_whatever_fails(faulty: FaultyEngine, cluster: SeparateCluster) -> None:
    producer = LibrdkafkaTransactions("orders", cluster.bootstrap, PLACES, per_place=50)
    wait_until(lambda: producer.committed() >= FAULTS * TRANSACTIONS_PER_FAULT, 300, "there are records to archive")
    producer.stop()
    assert producer.errors == []
    engine = faulty.engine
    engine.archive()
    for number in range(FAULTS):
        run = engine.backfill(*SEPARATE)
        engine.wait_for_events(run)
        if number % 2:
            kill_processes_of_executors(run)
            engine.wait_for_events(run)
        if number % 3 == 0:
            faulty.fail_over()
        run.kill_driver()
    last = engine.backfill(*LOCAL)
    assert last.wait() == 0, last.said()
    seen = engine.seen()
    print(f"{len(seen)} events, {len(seen) - len({(each.shard, each.offset) for each in seen})} of them repeats")
    assert engine.contradictions({}, of_archive=True) == []
