"""`tailrace pipeline archive` copies topics of live brokers to Parquet, each record exactly once."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cluster import Tailrace
from pyspark.sql import SparkSession

from tailrace.cli.main import main
from tailrace.pipeline.archive import archive, read_archive
from tailrace.pipeline.archive.rounds.archive_rounds import ArchiveResult
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder

from .cluster_commands import ClusterCommands
from .kafka_side import KafkaSide, Row, ToSend

Capture = pytest.CaptureFixture[str]
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
PARTITIONS = 2
RECORDS = 300


def _run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    status = main(["pipeline", "archive", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def _send(kafka: KafkaSide, topic: str, start: int, end: int) -> None:
    """Sends records of three days; some have no key, no value, or headers."""
    kafka.send(
        topic,
        [
            ToSend(
                None if number % 17 == 0 else b"value-%d" % number,
                None if number % 5 == 0 else b"key-%d" % number,
                number % PARTITIONS,
                START_MS + number % 3 * DAY_MS + number,
                (("trace", b"%d" % number), ("empty", b"")) if number % 7 == 0 else (),
            )
            for number in range(start, end)
        ],
        codec="lz4",
    )


def _archived(spark: SparkSession, directory: Path, topic: str) -> list[Row]:
    """Returns the rows of an archive, after a check that each has the right date."""
    frame = read_archive(spark, str(directory), topics=[topic])
    assert frame.where("date != to_date(timestamp)").isEmpty()
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS time").collect()
    return sorted(
        (
            Row(
                row.topic,
                row.partition,
                row.offset,
                row.time,
                None if row.key is None else bytes(row.key),
                None if row.value is None else bytes(row.value),
                tuple((each.key, bytes(each.value)) for each in row.headers or ()),
            )
            for row in rows
        ),
        key=lambda row: (row.topic, row.partition, row.offset),
    )


def _archives_and_proves(spark: SparkSession, kafka: KafkaSide, directory: Path, capsys: Capture) -> None:
    topic = kafka.new_topic("archive", PARTITIONS, retention_ms="-1")
    where = ("--bootstrap", kafka.bootstrap)
    to = str(directory)
    _send(kafka, topic, 0, RECORDS)
    status, said, error = _run(capsys, "run", topic, "--to", to, *where)
    assert (status, error) == (0, ""), error
    assert said.endswith(f"ok: {RECORDS} records of {topic}, and the archive is at commit 2\n")
    expected = kafka.rows(topic)
    assert _archived(spark, directory, topic) == expected
    # What comes later is added. What was deleted before it could be archived is a gap.
    _send(kafka, topic, RECORDS, 2 * RECORDS)
    kafka.delete_records_before(topic, 0, RECORDS // 2 + 10)
    status, said, _ = _run(capsys, "run", topic, "--to", to, *where, "--output", "json")
    assert (status, json.loads(said)["records"], json.loads(said)["facts"]["offsets without a record"]) == (
        0,
        RECORDS - 10,
        10,
    )
    later = [row for row in kafka.rows(topic) if row.offset >= RECORDS // 2]
    assert _archived(spark, directory, topic) == sorted(
        [*expected, *later], key=lambda row: (row.partition, row.offset)
    )
    status, said, error = _run(capsys, "run", topic, "--to", to, *where)
    assert (status, "nothing new" in said) == (0, True)
    status, said, error = _run(capsys, "verify", to, *where)
    assert (status, "deleted 10" in said, error) == (0, True, ""), said


def test_an_archive_has_every_record_of_tailrace_once(
    spark_session: SparkSession, kafka_side: KafkaSide, tmp_path: Path, capsys: Capture
) -> None:
    _archives_and_proves(spark_session, kafka_side, tmp_path / "an archive [1] of {all}", capsys)


def test_an_archive_has_every_record_of_apache_kafka_once(
    spark_session: SparkSession, apache_kafka: str, tmp_path: Path, capsys: Capture
) -> None:
    _archives_and_proves(spark_session, KafkaSide(apache_kafka), tmp_path / "archive", capsys)


def test_a_topic_that_was_made_again_follows_the_old_one(
    spark_session: SparkSession, kafka_side: KafkaSide, tmp_path: Path
) -> None:
    topic = kafka_side.new_topic("again")
    to, brokers = str(tmp_path), [kafka_side.bootstrap]
    kafka_side.send_values(topic, range(5))
    archive(spark_session, [topic], to, brokers=brokers)
    kafka_side.delete_topic(topic)
    kafka_side.create_topic(topic)
    kafka_side.send_values(topic, range(100, 103))
    assert archive(spark_session, [topic], to, brokers=brokers).records == 3
    rows = _archived(spark_session, tmp_path, topic)
    assert sorted(int(row.value or b"") for row in rows) == [0, 1, 2, 3, 4, 100, 101, 102]
    assert len(ArchiveFolder(to).load().manifest.partitions) == 2


def test_two_drivers_at_once_archive_each_record_once(
    spark_session: SparkSession, kafka_side: KafkaSide, tmp_path: Path, capsys: Capture
) -> None:
    topic = kafka_side.new_topic("race", PARTITIONS, retention_ms="-1")
    for number in range(4):
        _send(kafka_side, topic, number * RECORDS, (number + 1) * RECORDS)
    both_began = threading.Barrier(2)

    def run(_: int) -> ArchiveResult:
        def wait(done: int, total: int) -> None:
            if not has_waited:
                has_waited.append(True)
                both_began.wait(60)

        has_waited: list[bool] = []
        return archive(
            spark_session, [topic], str(tmp_path), brokers=[kafka_side.bootstrap], chunk_bytes=10_000, report=wait
        )

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, range(2)))
    assert sum(each.records for each in results) == 4 * RECORDS
    assert sum(int(each.facts["commits of others"] or 0) for each in results) >= 1
    assert _archived(spark_session, tmp_path, topic) == kafka_side.rows(topic)
    status, said, _ = _run(capsys, "verify", str(tmp_path), "--bootstrap", kafka_side.bootstrap, "--output", "json")
    assert (status, json.loads(said)["facts"]["files that do not count"]) == (0, 0), said


def test_a_task_that_cannot_write_leaves_the_archive_as_it_was(
    spark_session: SparkSession, kafka_side: KafkaSide, tmp_path: Path, capsys: Capture
) -> None:
    topic = kafka_side.new_topic("unwritable")
    kafka_side.send_values(topic, range(5))
    (tmp_path / "data").touch()
    words = ("run", topic, "--to", str(tmp_path), "--bootstrap", kafka_side.bootstrap)
    status, _, error = _run(capsys, *words)
    assert (status, error) == (
        1,
        f"tailrace pipeline archive run: {tmp_path}/data/{topic} cannot be written, and the archive is as it was: "
        "Not a directory\n",
    )
    (tmp_path / "data").unlink()
    status, said, error = _run(capsys, *words)
    assert (status, "5 records" in said) == (0, True), error


def test_executors_of_a_cluster_archive_each_record_once(
    spark_cluster: ClusterCommands, kafka_side: KafkaSide, tmp_path: Path
) -> None:
    topic = kafka_side.new_topic("cluster", PARTITIONS)
    kafka_side.send_values(topic, range(RECORDS))
    to, where = str(tmp_path / "archive"), ("--bootstrap", kafka_side.bootstrap)
    status, said, error = spark_cluster.run("pipeline", "archive", "run", topic, "--to", to, *where)
    assert (status, f"{RECORDS} records of {topic}" in said, error) == (0, True, "")
    status, said, error = spark_cluster.run("pipeline", "archive", "verify", to, *where)
    assert (status, f"has {RECORDS} records of 2 partitions exactly once" in said, error) == (0, True, ""), said


def test_a_head_in_the_store_of_the_sc_survives_a_crash_of_the_sc(
    spark_session: SparkSession, tmp_path: Path, capsys: Capture
) -> None:
    cluster, to = Tailrace(tmp_path), tmp_path / "archive"
    try:
        cluster.start()
        kafka = KafkaSide(cluster.bootstrap)
        topic = kafka.new_topic("head")
        kafka.send_values(topic, range(5))
        words = ("run", topic, "--to", str(to), "--bootstrap", cluster.bootstrap)
        status, said, error = _run(capsys, *words, "--sc", cluster.sc)
        assert (status, "5 records" in said, error) == (0, True, "")
        assert not list((to / "manifest").glob("head-*"))
        cluster.kill()
        status, _, error = _run(capsys, "show", str(to))
        assert (status, "the head of the archive is in the store of the SC: the SC at" in error) == (3, True), error
        old = cluster.sc
        cluster.start()
        content = (to / "archive.json").read_text()
        (to / "archive.json").write_text(content.replace(old, cluster.sc))
        kafka.send_values(topic, range(5, 8))
        status, said, error = _run(capsys, *words)
        assert (status, "3 records" in said, error) == (0, True, "")
        assert len(_archived(spark_session, to, topic)) == 8
    finally:
        cluster.kill()
