"""What newer PySpark alone can, real-time mode and limits for streams of segments, and what all releases can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from segment_logs import CONFIG, Spu, fill
from spark.kafka_side import PATIENCE_SECONDS, KafkaSide, committed
from waiting import wait_until

from tailrace.client.log_facts import Partition
from tailrace.pipeline.archive import archive, verify
from tailrace.pipeline.audit import audit
from tailrace.pipeline.lag import attach
from tailrace.pipeline.lag.checkpoint_queries import CheckpointQueries
from tailrace.pipeline.replay import replay, verify_replay
from tailrace.pipeline.segments.segment_source import register
from tailrace.pipeline.stats import stats
from tailrace.runtime.files import RealFiles

RECORDS, LIMIT = 500, 120


def test_the_lag_follows_a_query_in_real_time_mode_within_its_trigger(
    spark_session: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    side = KafkaSide(bootstrap)
    source, sink = side.new_topic("real-time", 2), side.new_topic("real-time-sink")
    reader = spark_session.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    writer = frame.select("key", "value").writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.option("topic", sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    trigger: Any = {"realTime": "5 minutes"}
    with attach(spark_session, source, interval_seconds=0.2) as attachment:
        query = writer.outputMode("update").trigger(**trigger).start()
        try:
            for more, end in ((10, 10), (5, 15)):
                side.send_values(source, range(more), 0)
                ends = {0: end, 1: 0}
                wait_until(lambda: committed(bootstrap, source) == ends, PATIENCE_SECONDS, "commits")  # noqa: B023
            wait_until(lambda: not any(each.lag_records for each in attachment.rows), PATIENCE_SECONDS, "no lag")
            assert query.lastProgress is None, "the trigger has ended"
        finally:
            query.stop()


def test_triggers_read_at_most_the_limit_and_available_now_ends(spark_session: SparkSession, tmp_path: Path) -> None:
    register(spark_session)
    trio.run(_write, tmp_path / "spu")
    batches: list[list[int]] = []

    def keep(batch: DataFrame, number: int) -> None:
        batches.append([row.offset for row in batch.collect()])

    def run_available() -> list[int]:
        batches.clear()
        reader = spark_session.readStream.format("tailrace-segments").option("columns", "offset")
        frame = (
            reader.option("includeUnsealed", "true").option("maxOffsetsPerTrigger", LIMIT).load(str(tmp_path / "spu"))
        )
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(int(PATIENCE_SECONDS))
        return [offset for batch in batches for offset in batch]

    assert run_available() == list(range(RECORDS))
    assert max(map(len, batches)) <= LIMIT
    trio.run(_write, tmp_path / "spu")
    assert run_available() == list(range(RECORDS, 2 * RECORDS))


def test_jobs_do_what_they_do_with_the_oldest_release(
    spark_session: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    spu, archived, copied = str(tmp_path / "spu"), str(tmp_path / "archive"), str(tmp_path / "map")
    trio.run(_write, tmp_path / "spu")
    assert audit(spark_session, [spu]).is_ok
    assert stats(spark_session, segments=[spu]).facts["records"] == RECORDS
    assert archive(spark_session, ["events"], archived, segments=[spu]).is_ok
    assert verify(spark_session, archived, segments=[spu]).is_ok
    assert stats(spark_session, archive=archived).facts["records"] == RECORDS
    topic = KafkaSide(bootstrap).new_topic("copy", retention_ms="-1")
    replay(
        spark_session, from_archive=archived, topic="events", to_topic=topic, map_directory=copied, bootstrap=bootstrap
    )
    assert verify_replay(spark_session, copied, bootstrap=bootstrap).facts["present"] == RECORDS


def test_a_checkpoint_tells_where_its_query_is(spark_session: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    side, checkpoint = KafkaSide(bootstrap), str(tmp_path / "checkpoint")
    topic = side.new_topic("checkpoint")
    side.send_values(topic, range(10), 0)
    reader = spark_session.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    assert writer.trigger(availableNow=True).start().awaitTermination(int(PATIENCE_SECONDS))
    progress = CheckpointQueries(RealFiles(read_only=True), [checkpoint]).progress_of(checkpoint)
    assert progress is not None
    assert progress.positions == {Partition(topic, 0): 10}


async def _write(directory: Path) -> None:
    spu = Spu(directory, replace(CONFIG, segment_bytes_max=20_000))
    log = spu.log(0)
    fill(log, RECORDS)
    await log.sync()
    await spu.commit(log.log_end)
