"""Lag tools see streaming queries to which our lag is attached. It runs in the driver, so the tests import it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import Broker, tailrace, tailrace_output
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.query import StreamingQuery
from waiting import wait_until

from tailrace.client.log_facts import Partition
from tailrace.pipeline.lag import Attachment, attach
from tailrace.pipeline.lag.running_reads import RunningReads

from .kafka_side import PATIENCE_SECONDS, KafkaSide, ToSend, committed
from .spark_side import SparkSide

NO_BROKER = "127.0.0.1:1"


@contextmanager
def running(frame: DataFrame, checkpoint: Path, name: str = "billing") -> Iterator[StreamingQuery]:
    writer = frame.writeStream.queryName(name).foreachBatch(lambda batch, number: None)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="100 milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


def shows_no_lag(attachment: Attachment, ends: dict[int, int]) -> bool:
    return {each.partition.number: each.position for each in attachment.rows if each.lag_records == 0} == ends


@pytest.mark.parametrize("peer", ["bootstrap", "apache_kafka"])
def test_a_query_is_a_group_with_its_lag(
    request: pytest.FixtureRequest, spark_session: SparkSession, tmp_path: Path, peer: str
) -> None:
    bootstrap: str = request.getfixturevalue(peer)
    side, spark = KafkaSide(bootstrap), SparkSide(spark_session, bootstrap)
    topic = side.new_topic("lag", 2)
    group = f"{topic}-billing"
    side.send_values(topic, range(4), 1)
    with attach(spark_session, f"{topic}-{{query}}", interval_seconds=0.1) as attachment:
        with running(spark.stream(subscribe=topic, startingOffsets="earliest"), tmp_path / "checkpoint"):
            for more, end in ((10, 10), (5, 15)):
                side.send_values(topic, range(more), 0)
                ends = {0: end, 1: 4}
                wait_until(lambda: committed(bootstrap, group) == ends, PATIENCE_SECONDS, "commits")  # noqa: B023
                wait_until(lambda: shows_no_lag(attachment, ends), PATIENCE_SECONDS, "no lag")  # noqa: B023
        wait_until(lambda: not any(each.is_active for each in attachment.rows), PATIENCE_SECONDS, "the end")
        assert {each.lag_seconds for each in attachment.rows} == {0.0}
        an_hour_ago = round(time.time() - 3600) * 1000
        side.send(topic, [ToSend(b"late", timestamp_ms=an_hour_ago, partition=1)])

        def lags_an_hour() -> bool:
            (row,) = (each for each in attachment.rows if each.partition.number == 1)
            return row.lag_records == 1 and row.lag_seconds is not None and 3600 <= row.lag_seconds < 3900

        wait_until(lags_an_hour, PATIENCE_SECONDS, "the lag of an old record in seconds")
    (shown,) = json.loads(tailrace_output("group", "describe", group, "--bootstrap", bootstrap))
    assert [(each["committed"], each["lag"]) for each in shown["partitions"]] == [(15, 0), (4, 1)]


def test_a_query_that_ends_before_it_is_looked_at_is_seen(
    spark_session: SparkSession, spark_side: SparkSide, kafka_side: KafkaSide, tmp_path: Path
) -> None:
    topic = kafka_side.new_topic("lag")
    kafka_side.send_values(topic, range(10))
    frame = spark_side.stream(subscribe=topic, startingOffsets="earliest")
    with attach(spark_session, topic, bootstrap=kafka_side.bootstrap, interval_seconds=PATIENCE_SECONDS) as attachment:
        wait_until(lambda: attachment.has_looked, PATIENCE_SECONDS, "the first look is over")
        writer = frame.writeStream.foreachBatch(lambda batch, number: None)
        query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        assert query.awaitTermination(int(PATIENCE_SECONDS))
    assert committed(kafka_side.bootstrap, topic) == {0: 10}


def test_a_query_outlives_brokers_that_do_not_respond(
    spark_session: SparkSession, spark_side: SparkSide, kafka_side: KafkaSide, tmp_path: Path
) -> None:
    topic = kafka_side.new_topic("lag")
    frame = spark_side.stream(subscribe=topic, startingOffsets="earliest")
    with attach(spark_session, "g", bootstrap=NO_BROKER), running(frame, tmp_path / "checkpoint") as query:
        kafka_side.send_values(topic, range(10))
        query.processAllAvailable()
        assert query.isActive
        assert query.exception() is None


def test_commits_go_on_after_a_broker_was_killed(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> None:
    side = KafkaSide(broker.bootstrap)
    topic = side.new_topic("lag")
    frame = SparkSide(spark_session, broker.bootstrap).stream(subscribe=topic, startingOffsets="earliest")
    side.send_values(topic, range(10))
    with attach(spark_session, "g", bootstrap=broker.bootstrap), running(frame, tmp_path / "checkpoint"):
        wait_until(lambda: committed(broker.bootstrap, "g") == {0: 10}, PATIENCE_SECONDS, "commits")
        broker.kill()
        broker.start()
        side.send_values(topic, range(10))
        wait_until(lambda: committed(broker.bootstrap, "g") == {0: 20}, PATIENCE_SECONDS, "commits after the restart")


def test_a_checkpoint_tells_as_much_as_spark(spark_side: SparkSide, kafka_side: KafkaSide, tmp_path: Path) -> None:
    topic = kafka_side.new_topic("lag", 2)
    kafka_side.send_values(topic, range(10), 0)
    checkpoint = tmp_path / "billing"
    with running(spark_side.stream(subscribe=topic, startingOffsets="earliest"), checkpoint) as query:
        query.processAllAvailable()
    kafka_side.send_values(topic, range(3), 1)
    words = ["pipeline", "lag", "--checkpoint", str(checkpoint), "--group", topic, "--output", "json"]
    command = tailrace(*words, "--bootstrap", kafka_side.bootstrap)
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert [(each["partition"], each["position"], each["lag"]) for each in shown] == [(0, 10, 0), (1, 0, 3)]
    assert committed(kafka_side.bootstrap, topic) == {0: 10, 1: 0}


def test_a_running_batch_shows_how_far_it_has_read(
    spark_session: SparkSession, spark_side: SparkSide, kafka_side: KafkaSide, tmp_path: Path
) -> None:
    """Spark 4.0 has no real-time mode. A micro-batch that waits has the same tasks, under a node of another class."""
    topic = kafka_side.new_topic("lag", 2)
    kafka_side.send_values(topic, range(10), 0)
    kafka_side.send_values(topic, range(4), 1)
    let_go = tmp_path / "let-go"
    path = str(let_go)

    def wait_for_file(value: bytes) -> bool:
        while not os.path.exists(path):
            time.sleep(0.01)
        return True

    wait = udf(wait_for_file, "boolean")
    frame = spark_side.stream(subscribe=topic, startingOffsets="earliest").filter(wait("value"))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    reads = RunningReads(spark_session, scan="MicroBatchScanExec")
    try:
        ends = {Partition(topic, 0): 10, Partition(topic, 1): 4}

        def has_read_all() -> bool:
            trigger = reads.trigger_of(query)
            return trigger is not None and trigger.batch_id == 0 and trigger.positions == ends

        wait_until(has_read_all, PATIENCE_SECONDS, "the heartbeats of both tasks")
        assert query.lastProgress is None
        let_go.touch()
        query.processAllAvailable()
    finally:
        let_go.touch()
        query.stop()
