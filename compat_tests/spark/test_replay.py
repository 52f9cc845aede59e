"""`replay` and `tailrace pipeline replay`: each record once, also if everything is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from archive_files import archived_rows, write_archive, write_chunk
from msgspec.structs import replace
from pyspark.sql import SparkSession
from segment_logs import CONFIG, Spu
from waiting import wait_until

from tailrace.pipeline.replay import ReplayError, ReplayResult, replay, target_offset, verify_replay
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch

from .kafka_side import KafkaSide, Row, ToSend

RECORDS = 1500
START_MS = 1_700_000_000_000
KILLED_SPEED = 20.0
"""The records are a second apart, so at this speed a replay takes a minute and more."""


def _records(partition: int, start: int, end: int) -> list[Record]:
    return [
        Record(
            offset,
            START_MS + offset * 1000 + partition,
            None if offset % 11 == 0 else b"key-%d" % (offset % 7),
            None if offset % 13 == 0 else b'{"n":%d,"email":"a@b.c"}' % offset,
            [("source", b"shop"), ("none", None)] if offset % 5 == 0 else [],
        )
        for offset in range(start, end)
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The data directory of an SPU that has three partitions of the topic `events`."""
    directory = tmp_path_factory.mktemp("spu")

    async def write() -> None:
        spu = Spu(directory, replace(CONFIG, segment_bytes_max=20_000))
        for partition in range(3):
            log = spu.log(partition)
            for start in range(0, RECORDS, 50):
                batch = build_batch(_records(partition, start, start + 50), base_offset=start, leader_epoch=0)
                log.append(memoryview(batch), read_header(batch))
            await log.sync()
            await spu.commit(RECORDS, partition)

    trio.run(write)
    yield str(directory)


@pytest.fixture
def topic(kafka_side: KafkaSide) -> str:
    return kafka_side.new_topic("replay", 3, retention_ms="-1")


def _expected(topic: str, *, first: int = 0) -> list[Row]:
    return [
        Row(topic, partition, each.offset - first, each.timestamp, each.key, each.value, tuple(each.headers))
        for partition in range(3)
        for each in _records(partition, first, RECORDS)
    ]


def _replay(session: SparkSession, bootstrap: str, data: str, topic: str, **more: Any) -> ReplayResult:
    given = {"topic": "events", "to_topic": topic, "from_segments": [data], "bootstrap": bootstrap, **more}
    return replay(session, **given)


def test_a_replay_keeps_partition_order_time_and_headers_and_maps_offsets(
    spark_session: SparkSession, kafka_side: KafkaSide, data: str, topic: str, tmp_path: Path
) -> None:
    found = _replay(spark_session, kafka_side.bootstrap, data, topic, map_directory=str(tmp_path))
    assert found.facts["records sent"] == 3 * RECORDS
    assert kafka_side.rows(topic) == _expected(topic)
    table = spark_session.read.parquet(str(tmp_path))
    assert table.selectExpr("sum(records)").collect()[0][0] == 3 * RECORDS
    assert target_offset(str(tmp_path), 2, 1234) == 1234
    again = _replay(spark_session, kafka_side.bootstrap, data, topic, map_directory=str(tmp_path))
    assert (again.facts["sent by this run"], again.rows[0].rollup) == (0, found.rows[0].rollup)
    assert len(kafka_side.rows(topic)) == 3 * RECORDS
    with pytest.raises(ReplayError, match="is the map of a replay with another mask:"):
        _replay(spark_session, kafka_side.bootstrap, data, topic, map_directory=str(tmp_path), masks=["key=drop"])


def test_a_replay_goes_to_apache_kafka(
    spark_session: SparkSession, apache_kafka: str, data: str, tmp_path: Path
) -> None:
    side = KafkaSide(apache_kafka)
    topic = side.new_topic("replay", 3, retention_ms="-1")
    side.send(topic, [ToSend(b"before")])
    found = _replay(spark_session, apache_kafka, data, topic, map_directory=str(tmp_path), start=1000)
    assert [(row.sent, row.to_first) for row in found.rows] == [(RECORDS - 1000, 1), *[(RECORDS - 1000, 0)] * 2]
    rows = [row for row in side.rows(topic) if row.value != b"before"]
    assert [replace(row, offset=0) for row in rows] == [replace(row, offset=0) for row in _expected(topic, first=1000)]


def test_an_archive_is_replayed(spark_session: SparkSession, kafka_side: KafkaSide, topic: str, tmp_path: Path) -> None:
    one, next_one = "2020-01-01", "2020-01-02"
    dated = {one: archived_rows(range(5, 15), date=one), next_one: archived_rows([17], date=next_one)}
    first = write_chunk(tmp_path / "a", 5, 20, dated)
    second = write_chunk(tmp_path / "a", 20, 30, {next_one: archived_rows(range(20, 30), date=next_one)})
    write_archive(tmp_path / "a", first, second, start=5)
    given = {"from_archive": str(tmp_path / "a"), "map_directory": str(tmp_path / "map"), "until": 25}
    replay(spark_session, topic="orders", to_topic=topic, bootstrap=kafka_side.bootstrap, **given)
    offsets = [*range(5, 15), 17, *range(20, 25)]
    assert [row.value for row in kafka_side.rows(topic)] == [b"value %d" % each for each in offsets]
    assert target_offset(str(tmp_path / "map"), 0, 17) == 10
    assert verify_replay(spark_session, str(tmp_path / "map"), bootstrap=kafka_side.bootstrap).is_ok


def test_records_are_chosen_and_masked_and_a_dry_run_sends_nothing(
    spark_session: SparkSession, kafka_side: KafkaSide, data: str, topic: str, tmp_path: Path
) -> None:
    chosen = {
        "partitions": [1],
        "start": {1: 100},
        "keys": ["key-3"],
        "masks": ["value.email=replace:hidden", "header.none=drop"],
    }
    dry = _replay(spark_session, kafka_side.bootstrap, data, topic, dry_run=True, **chosen)
    assert kafka_side.rows(topic) == []
    found = _replay(spark_session, kafka_side.bootstrap, data, topic, map_directory=str(tmp_path), **chosen)
    rows = kafka_side.rows(topic)
    wanted = [each for each in _records(1, 100, RECORDS) if each.key == b"key-3"]
    assert len(rows) == len(wanted) == dry.facts["records sent"] == found.facts["records sent"]
    assert found.rows[0].rollup == dry.rows[0].rollup
    for row, record in zip(rows, wanted, strict=True):
        assert (row.partition, row.timestamp_ms) == (1, record.timestamp)
        assert row.value == (record.value and record.value.replace(b"a@b.c", b"hidden"))
        assert ("none", None) not in row.headers


def test_a_target_that_cannot_keep_the_records_is_refused(
    spark_session: SparkSession, kafka_side: KafkaSide, data: str, tmp_path: Path
) -> None:
    for configs, partitions, sentence in (
        ({"retention_ms": "-1"}, 2, "has 2 partitions, and events/2 needs 3"),
        ({"message_timestamp_type": "LogAppendTime", "retention_ms": "-1"}, 3, "replaces the times of records"),
        ({}, 3, "deletes records that are older than 7 days"),
    ):
        topic = kafka_side.new_topic("refused", partitions, **configs)
        with pytest.raises(ReplayError, match=sentence):
            _replay(spark_session, kafka_side.bootstrap, data, topic, map_directory=str(tmp_path / topic))
        assert kafka_side.rows(topic) == []


def test_after_everything_was_killed_the_rest_is_sent_once(
    spark_session: SparkSession, kafka_side: KafkaSide, data: str, topic: str, tmp_path: Path
) -> None:
    words = ["--topic", "events", "--to-topic", topic, "--from-segments", data, "--bootstrap", kafka_side.bootstrap]
    command = [sys.executable, "-m", "tailrace", "pipeline", "replay", *words, "--map", str(tmp_path / "map")]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [*command, "--speed", f"{KILLED_SPEED}x", "--master", "local[2]"], stdout=output, stderr=output
        )
        try:
            wait_until(
                lambda: process.poll() is not None or min(kafka_side.ends(topic).values()) > 20, 120, "records sent"
            )
            assert process.poll() is None, (tmp_path / "output").read_text()[-3000:]
            kafka_side.send(topic, [ToSend(b"of another producer", partition=each) for each in range(3)])
        finally:
            _kill_all(process.pid)
            process.wait()
    sent_before = sum(kafka_side.ends(topic).values()) - 3
    assert 0 < sent_before < 3 * RECORDS
    found = _replay(spark_session, kafka_side.bootstrap, data, topic, map_directory=str(tmp_path / "map"))
    assert found.facts["records sent"] == 3 * RECORDS
    assert found.facts["sent by this run"] == 3 * RECORDS - sent_before
    rows = [row for row in kafka_side.rows(topic) if row.value != b"of another producer"]
    expected = _expected(topic)
    assert [replace(row, offset=0) for row in rows] == [replace(row, offset=0) for row in expected]
    offsets = {(source.partition, source.offset): row.offset for row, source in zip(rows, expected, strict=True)}
    assert target_offset(str(tmp_path / "map"), 1, RECORDS - 1) == offsets[1, RECORDS - 1]
    assert target_offset(str(tmp_path / "map"), 1, 10) == offsets[1, 10]
    proof = verify_replay(spark_session, str(tmp_path / "map"), bootstrap=kafka_side.bootstrap)
    assert proof.is_ok, proof.text()
    assert proof.facts["present"] == 3 * RECORDS


def _kill_all(pid: int) -> None:
    """Kills a process and everything that it has started: the driver, the JVM, and the workers of Spark."""
    tree = [pid]
    for each in tree:
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{each}/task").iterdir():
                tree += map(int, (task / "children").read_text().split())
    for each in tree:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
