"""Kills drivers, executors and leaders, deletes records and fills the disk while `archive run` archives a topic.

Then a last run archives the rest, `audit` finds all replicas equal, `archive verify` proves the archive, and a stock
client and pyarrow find every committed record in it exactly once. By default some faults happen to one run.
`make soak SOAK=pipeline` sets TAILRACE_SOAK_FAULTS: then so many faults happen in random order.
TAILRACE_SOAK_SEED chooses another order.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.records import RunningProducer, stored
from node_cluster import Watcher
from pipeline.archive_faults import ALL, PARTITIONS, PLACES, SHORT, TOPIC, Fault, Faulty
from pipeline.common_faults import small_disk
from pipeline.running_archive import contradictions, finish
from spu_cluster import SeparateCluster

FAULTS = int(os.environ.get("TAILRACE_SOAK_FAULTS", "0"))
SEED = int(os.environ.get("TAILRACE_SOAK_SEED", "1"))
SECONDS_PER_FAULT_MAX = 600


@pytest.fixture
def faulty(cluster: SeparateCluster, tmp_path: Path) -> Iterator[Faulty]:
    Watcher(cluster.bootstrap).create_topic(TOPIC, PARTITIONS, configs={"min.insync.replicas": 2})
    with small_disk(tmp_path / "disk") as disk:
        made = Faulty(cluster, tmp_path, disk / "archive", random.Random(SEED))
        try:
            yield made
        finally:
            made.end()


def faults(chance: random.Random) -> Iterator[Fault]:
    if not FAULTS:
        yield from SHORT
        return
    left = FAULTS
    while left > 0:
        chosen = chance.sample(ALL, len(ALL))[:left]
        yield from chosen
        left -= len(chosen)


@pytest.mark.timeout(900 + FAULTS * SECONDS_PER_FAULT_MAX)
def test_every_committed_record_is_archived_once_whatever_fails(
    faulty: Faulty, cluster: SeparateCluster, tmp_path: Path
) -> None:
    print(f"TAILRACE_SOAK_FAULTS={FAULTS} TAILRACE_SOAK_SEED={SEED}")
    # Few, larger batches leave the processor to Spark.
    producer = RunningProducer("orders", cluster.bootstrap, PLACES, enable_idempotence=True, linger_ms=100)
    for fault in faults(faulty.chance):
        started = time.monotonic()
        said = fault(faulty)
        print(f"{fault.__name__}: {said}; {time.monotonic() - started:.1f} s")
    producer.stop()
    assert producer.errors == []
    data = [tmp_path / "cluster" / f"spu-{each}" for each in cluster.ids]
    status, report = finish(faulty.root, cluster.bootstrap, TOPIC, data)
    assert (status, [each["problems"] for each in report["partitions"]]) == (0, [[]] * PARTITIONS), report
    assert {each["partition"]: each["behind"] for each in report["partitions"]} == dict.fromkeys(range(PARTITIONS), 0)
    logs = stored(cluster.bootstrap, PLACES)
    assert contradictions(faulty.files.records(PLACES), logs, faulty.starts) == []
    gaps = [each["gaps"] for each in report["partitions"]]
    print(f"{report['verdict']}; gaps {gaps}; {report['facts']['files that do not count']} files do not count")
