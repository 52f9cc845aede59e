"""`tailrace pipeline audit` on the data of a real cluster: no finding in healthy logs, and one for each damage."""

from __future__ import annotations

import json
import os
import shutil
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clients.batches import with_right_crc
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from recovered_log import HOLE, control_batch, recovered_end
from spu_cluster import SeparateCluster, cli
from waiting import wait_until

from tailrace.pipeline.audit import AuditResult, audit

from .cluster_commands import ClusterCommands

PARTITIONS = 8
SWAPPED, FLIPPED, TRUNCATED, FORGED, LOST, HOLED, BRIDGELESS, HEALTHY = range(PARTITIONS)
SPUS = (1, 2, 3)
HEADER = struct.Struct(">qiibIhi")
"""The beginning of a batch, up to its last offset delta."""
BIG = 2_300_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audited")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[SeparateCluster]:
    """A cluster with a topic, a compacted topic, and a hole and a bridge from a recovery in some partitions."""
    cluster = SeparateCluster(directory, settings={"log.cleaner.backoff.ms": "100"})
    cluster.start()
    try:
        for topic, words in {
            "orders": (f"--partitions={PARTITIONS}", "--config=segment.bytes=1048576"),
            "table": (
                "--config=cleanup.policy=compact",
                "--config=segment.ms=500",
                "--config=min.cleanable.dirty.ratio=0.01",
            ),
        }.items():
            status, said = cli(cluster.sc, "topic", "create", topic, "--replication-factor=3", "--wait=20", *words)
            assert status == 0, said
        _fill(cluster)
        cluster.stop()
        for spu in SPUS:
            (directory / f"spu-{spu}" / "clean-shutdown").unlink()
            for partition in (BRIDGELESS, HEALTHY):
                _append(_segments(cluster, spu, "orders", partition)[-1], recovered_end)
        cluster.start()
        _fill(cluster)
        yield cluster
    finally:
        cluster.kill()


def _fill(cluster: SeparateCluster) -> None:
    """Writes to all partitions, and waits until the table is compacted."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(300):
        for partition in range(PARTITIONS):
            producer.produce("orders", b"%d" % number, b"key", partition=partition)
        producer.produce("table", os.urandom(50), b"%d" % (number % 20))
        producer.poll(0)
    for _ in range(BIG // 10_000):
        producer.produce("orders", os.urandom(10_000), partition=SWAPPED)
        producer.poll(0)
    assert producer.flush(60) == 0
    wait_until(lambda: all(_is_compacted(cluster, spu) for spu in SPUS), 60, "the table is compacted")


def _is_compacted(cluster: SeparateCluster, spu: int) -> bool:
    manifest = cluster.replica_directory(spu, "table", 0) / "manifest"
    return manifest.exists() and b'"compacted"' in manifest.read_bytes()


def _segments(cluster: SeparateCluster, spu: int, topic: str, partition: int) -> list[Path]:
    return sorted(cluster.replica_directory(spu, topic, partition).glob("*.log"))


def _append(segment: Path, make: object) -> None:
    base = _end(segment.read_bytes())
    with segment.open("ab") as file:
        file.write(make(base))  # type: ignore[operator]


def _batches(content: bytes) -> list[tuple[int, int, int]]:
    """Returns position, base offset and end offset of each batch."""
    found, position = [], 0
    while position < len(content):
        base, length, _, _, _, _, delta = HEADER.unpack_from(content, position)
        found.append((position, base, base + delta + 1))
        position += length + 12
    return found


def _end(content: bytes) -> int:
    return _batches(content)[-1][2]


def _audit(session: SparkSession, cluster: SeparateCluster, directory: Path) -> AuditResult:
    return audit(session, [str(directory / f"spu-{spu}") for spu in cluster.ids])


def test_equal_copies_are_equal_while_spus_write_and_compact(
    spark_session: SparkSession, spark_cluster: ClusterCommands, cluster: SeparateCluster, directory: Path
) -> None:
    with _producing(cluster):
        results = [_audit(spark_session, cluster, directory) for _ in range(2)]
    for result in results:
        assert result.is_ok, result.text()
    records = [sum(copy.records for copy in result.copies) for result in results]
    assert records[0] > 0
    assert {copy.topic for copy in results[0].copies} >= {"orders", "table"}

    data = [str(directory / f"spu-{spu}") for spu in SPUS]
    status, output, errors = spark_cluster.run("pipeline", "audit", *data, "--sc", cluster.sc)
    assert (status, errors) == (0, ""), output
    status, output, _ = spark_cluster.run("pipeline", "audit", *data[:2], "--sc", cluster.sc, "--topic", "table")
    assert status == 1
    assert "SPU 3 should have a replica, and its data directory was not given" in output


@contextmanager
def _producing(cluster: SeparateCluster) -> Iterator[None]:
    """Writes to both topics while the block runs."""
    stopping = threading.Event()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})

    def produce() -> None:
        number = 0
        while not stopping.is_set():
            producer.produce("table", os.urandom(50), b"%d" % (number % 20))
            producer.produce("orders", os.urandom(500))
            producer.poll(0.002)
            number += 1

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        producer.flush(30)


def test_each_damage_is_found_in_its_copy_and_nothing_else(
    spark_cluster: ClusterCommands, cluster: SeparateCluster, directory: Path
) -> None:
    cluster.stop()
    words = ("pipeline", "audit", *(str(directory / f"spu-{spu}") for spu in SPUS), "--output", "json")
    status, output, errors = spark_cluster.run(*words)
    assert status == 0, output + errors

    expected = dict(_damage(cluster))
    parquet, metrics = directory / "report", directory / "audit.prom"
    status, output, errors = spark_cluster.run(*words, "--parquet", str(parquet), "--metrics", str(metrics))
    assert status == 1, output + errors
    found = {
        (copy["topic"], copy["partition"], copy["spu"]): {each["verdict"] for each in copy["findings"]}
        for copy in json.loads(output)["copies"]
        if copy["verdict"] != "equal"
    }
    assert found == expected
    assert {path.name for path in parquet.iterdir()} == {"copies.parquet", "findings.parquet"}
    assert 'tailrace_pipeline_audit_copies{verdict="hole outside a recovery"} 3.0' in metrics.read_text()


def _damage(cluster: SeparateCluster) -> Iterator[tuple[tuple[str, int, int], set[str]]]:
    """Damages copies, and yields which and how."""
    first, second = _segments(cluster, 1, "orders", SWAPPED)[:2]
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    yield ("orders", SWAPPED, 1), {"diverged"}

    _change(_segments(cluster, 2, "orders", FLIPPED)[0], lambda content: _flipped(content, -1, 1))
    yield ("orders", FLIPPED, 2), {"rotten"}

    _change(_segments(cluster, 3, "orders", TRUNCATED)[-1], lambda content: content[: _batches(content)[-1][0] + 9])
    yield ("orders", TRUNCATED, 3), {"missing"}

    _change(_segments(cluster, 1, "orders", FORGED)[-1], lambda content: _flipped(content, 15, 64))
    yield ("orders", FORGED, 1), {"diverged"}

    shutil.rmtree(cluster.replica_directory(2, "orders", LOST))
    yield ("orders", LOST, 2), {"missing"}

    for spu in SPUS:
        _change(_segments(cluster, spu, "orders", HOLED)[-1], _with_hole_at_the_end)
        yield ("orders", HOLED, spu), {"hole outside a recovery"}

    # The bridge of the leader that recovered what was appended by hand: the last batch of the segment.
    bridged = next(path for path in _segments(cluster, 3, "orders", BRIDGELESS) if _ends_with_bridge(path))
    _change(bridged, lambda content: content[: _batches(content)[-1][0]])
    yield ("orders", BRIDGELESS, 3), {"missing bridge"}

    table = _segments(cluster, 1, "table", 0)[0]
    _change(table, lambda content: _flipped(content, -1, 1))
    yield ("table", 0, 1), {"rotten"}


def _change(path: Path, change: object) -> None:
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]


def _flipped(content: bytes, position: int, mask: int) -> bytes:
    changed = bytearray(content)
    changed[position] ^= mask
    return bytes(changed)


def _with_hole_at_the_end(content: bytes) -> bytes:
    """Returns the content with a hole of the same offsets and epoch instead of the last batch."""
    position, base, end = _batches(content)[-1]
    (epoch,) = struct.unpack_from(">i", content, position + 12)
    hole = bytearray(control_batch(HOLE, base, end, struct.pack(">h", 0)))
    struct.pack_into(">i", hole, 12, epoch)
    return content[:position] + with_right_crc(bytes(hole))


def _ends_with_bridge(path: Path) -> bool:
    content = path.read_bytes()
    return bool(content) and len(content) - _batches(content)[-1][0] == 78
