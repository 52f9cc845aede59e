"""`spark.read.format("tailrace-segments")` and `readStream` read the files of SPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from segment_logs import CONFIG, START_MS, Spu, append, fill

from tailrace.pipeline.segments import latest_by_key, register

from .cluster_commands import ClusterCommands

RECORDS = 3000
KEYS = 7


@pytest.fixture(scope="module")
def session(spark_session: SparkSession) -> SparkSession:
    register(spark_session)
    return spark_session


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory with two partitions, which have several segments."""
    directory = tmp_path_factory.mktemp("spu")
    trio.run(_write, directory)
    yield directory


async def _write(directory: Path) -> None:
    spu = Spu(directory, replace(CONFIG, segment_bytes_max=60_000))
    for partition in (0, 1):
        log = spu.log(partition)
        fill(log, RECORDS, keys=KEYS)
        append(log, [(b"tagged", b"v")])
        await log.sync()
        await spu.commit(log.log_end, partition)


def test_executors_of_a_cluster_read_each_record_once(spark_cluster: ClusterCommands, data: Path) -> None:
    words = ("pipeline", "stats", "--segments", str(data), "--topic", "events", "--output", "json")
    status, said, error = spark_cluster.run(*words)
    assert status == 0, error
    (topic,) = json.loads(said)["topics"]
    assert [each["records"] for each in topic["partitions"]] == [RECORDS + 1] * 2


def _frame(session: SparkSession, data: Path, **options: str) -> DataFrame:
    given = {"includeUnsealed": "true", **options}
    return session.read.format("tailrace-segments").options(**given).load(str(data))


def test_a_query_gets_each_record_once_with_the_columns_of_the_kafka_source(session: SparkSession, data: Path) -> None:
    assert _frame(session, data, topic="events").rdd.getNumPartitions() == 1, "small segments share a task"
    frame = _frame(session, data, topic="events", maxSplitBytes="4096")
    assert frame.columns[:7] == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert frame.rdd.getNumPartitions() >= 10
    found = frame.groupBy("partition").agg({"offset": "count", "value": "max"}).orderBy("partition").collect()
    assert [row["count(offset)"] for row in found] == [RECORDS + 1] * 2
    first = frame.where("partition = 1 AND offset = 5").select("key", "value", "epoch", "entryType").collect()
    assert first == [Row(key=bytearray(b"key-5"), value=bytearray(b"%060d" % 5), epoch=0, entryType="event")]
    times = frame.where("partition = 0 AND offset = 5").selectExpr("unix_millis(timestamp)").collect()
    assert times[0][0] == START_MS + 5000


def test_offsets_times_and_partitions_choose_rows(session: SparkSession, data: Path) -> None:
    frame = _frame(session, data, partitions="1", startingOffsets="100", columns="offset,headers")
    assert frame.count() == RECORDS + 1 - 100
    frame = _frame(session, data, partitions="1", startingTimestamp=str(START_MS + 2_990_000), columns="offset")
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(2990, 3001))


def test_headers_of_batches_are_rows(session: SparkSession, data: Path) -> None:
    frame = _frame(session, data, headerOnly="true", verifyChecksums="true")
    row = frame.selectExpr("sum(records)", "sum(lastOffset - offset + 1)", "min(crcMatches)").collect()[0]
    assert list(row) == [2 * RECORDS + 2, 2 * RECORDS + 2, True]


def test_the_latest_row_of_each_key_is_the_same_in_a_task_and_over_all_executors(
    session: SparkSession, data: Path
) -> None:
    columns = ("partition", "key", "offset")
    in_task = _frame(session, data, latestByKey="true").select(*columns)
    over_all = latest_by_key(_frame(session, data)).select(*columns)
    found = sorted(map(tuple, in_task.collect()))
    assert found == sorted(map(tuple, over_all.collect()))
    assert len(found) == 2 * (KEYS + 1)


def test_a_wrong_option_and_a_damaged_segment_are_named(session: SparkSession, tmp_path: Path) -> None:
    trio.run(_write, tmp_path)
    with pytest.raises(PySparkException, match="has no option startoffset: it has path"):
        _frame(session, tmp_path, startOffset="1")
    (log,) = tmp_path.glob("topics/events/*/0/00000000000000000000.log")
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    with pytest.raises(PySparkException, match=f"{log} is damaged at position 0"):
        _frame(session, tmp_path).count()


def test_a_stream_reads_each_record_once_over_restarts(session: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        trio.run(_write, tmp_path / "spu")
        stream = session.readStream.format("tailrace-segments").option("columns", "partition,offset").load(
            str(tmp_path / "spu")
        )  # fmt: skip
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        assert query.awaitTermination(120)
    found = session.read.parquet(str(tmp_path / "out"))
    counts = found.groupBy("partition").agg({"offset": "count"}).collect()
    distinct = found.distinct().count()
    assert distinct == sum(row["count(offset)"] for row in counts)
    assert distinct > 2 * RECORDS
    for row in found.groupBy("partition").agg({"offset": "max"}).collect():
        assert found.where(f"partition = {row['partition']}").count() == row["max(offset)"] + 1
