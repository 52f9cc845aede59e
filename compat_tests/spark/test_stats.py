"""`tailrace pipeline stats` counts logs as a plain loop over their records does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
import trio
from msgspec.structs import replace
from pyspark.sql import SparkSession
from segment_logs import CONFIG, START_MS, Spu, append, fill

from tailrace.cli.main import main
from tailrace.pipeline.stats import stats
from tailrace.pipeline.stats.size_buckets import bucket_of, bucket_sql
from tailrace.protocol.batches.compression import Compression

pytest.importorskip("pyarrow", reason="Python data sources of Spark need pyarrow")

HOT, RECORDS = 600, 300
CUT_ID = UUID(int=7)
PRODUCER = {"producer_id": 7, "producer_epoch": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory with a hot partition, a hot key, tombstones and a batch that was written twice."""
    directory = tmp_path_factory.mktemp("spu")
    trio.run(_write, directory)
    yield directory


async def _write(directory: Path) -> None:
    spu = Spu(directory, replace(CONFIG, segment_bytes_max=40_000))
    quiet, hot = spu.log(0), spu.log(1)
    fill(quiet, RECORDS, keys=10, compression=Compression.ZSTD)
    append(quiet, [(None, b"no key")])
    append(quiet, [(b"key-3", None), (b"key-4", None)])
    for sequence in range(0, HOT, 10):
        again = 2 if sequence == 50 else 1
        for _ in range(again):
            append(hot, [(b"hot", b"x" * 90)] * 9 + [(b"\xff%d" % sequence, b"y")], base_sequence=sequence, **PRODUCER)
    for partition, log in enumerate((quiet, hot)):
        await log.sync()
        await spu.commit(log.log_end, partition)
    cut = spu.log(topic="cut", topic_id=CUT_ID)
    fill(cut, 10, per_batch=10)
    await cut.advance_log_start(7)
    await cut.sync()
    await spu.commit(cut.log_end, topic_id=CUT_ID)


def test_records_that_were_deleted_within_a_batch_are_not_counted(spark_session: SparkSession, data: Path) -> None:
    found = stats(spark_session, segments=[str(data)], topics=["cut"])
    (partition,) = found.topics[0].partitions
    assert (partition.records, found.facts["records"], found.topics[0].key_sizes.count) == (3, 3, 3)


def test_the_command_counts_every_record_and_draws_a_page(
    spark_session: SparkSession, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "stats.html"
    words = ("--segments", str(data), "--topic", "events", "--top", "3", "--html", str(page), "--output", "json")
    assert main(["pipeline", "stats", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["facts"]["records"] == RECORDS + 3 + HOT + 10
    assert found["facts"]["duplicate records"] == 10
    (topic,) = found["topics"]
    quiet, hot = topic["partitions"]
    assert [(each["records"], each["first"], each["last"]) for each in (quiet, hot)] == [(303, 0, 302), (610, 0, 609)]
    assert quiet["compaction"] == {
        "keys": 10,
        "keyed": 302,
        "keyed_bytes": RECORDS * (5 + 60) + 2 * 5,
        "kept_bytes": 8 * 65 + 2 * 5,
        "tombstones": 2,
    }
    assert hot["compaction"]["keys"] == 1 + HOT // 10
    assert (quiet["duplicates"], hot["duplicates"]) == (0, 10)
    assert topic["duplicates"] == [
        {"partition": 1, "producer_id": 7, "producer_epoch": 1, "sequence": 50, "times": 2, "first": 50, "last": 69}
    ]
    assert [(each["key"], each["partition"], each["records"]) for each in topic["keys"]] == [
        ("hot", 1, 549),
        ("key-3", 0, 31),
        ("key-4", 0, 31),
    ]
    assert (topic["key_sizes"]["count"], topic["key_sizes"]["nulls"], topic["key_sizes"]["largest"]) == (912, 1, 5)
    assert (topic["value_sizes"]["nulls"], topic["value_sizes"]["p99"], topic["value_sizes"]["largest"]) == (2, 90, 90)
    assert topic["batch_records"]["total"] == 913
    assert {each["codec"]: each["records"] for each in topic["codecs"]} == {"zstd": RECORDS, "none": 613}
    assert {each["producer_id"]: each["records"] for each in topic["producers"]} == {7: 610, -1: 303}
    assert (topic["producers_about"], topic["without_producer"]) == (1, 303)
    for partition in (quiet, hot):
        assert sum(slot["records"] for slot in partition["rate"]) == partition["records"]
        assert partition["rate"][0]["start_ms"] <= START_MS + 10_000
    shown = page.read_text()
    assert "hot · p1" in shown


def test_sizes_have_the_same_buckets_in_spark(spark_session: SparkSession) -> None:
    sizes = [None, 0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 1000, 2**20 - 1, 2**20, 2**31 - 1]
    frame = spark_session.createDataFrame([(each,) for each in sizes], "size INT")
    rows = frame.selectExpr("size", f"{bucket_sql('size')} AS bucket").collect()
    assert {row.size: row.bucket for row in rows} == {each: bucket_of(each) for each in sizes}
