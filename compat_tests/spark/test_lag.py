"""Lag tools see streaming queries to which our lag is attached. It runs in the driver, so the tests import it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import Broker, tailrace
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from waiting import wait_until

from tailrace.pipeline.lag import Attachment, attach

from .kafka_side import PATIENCE_SECONDS, KafkaSide, new_admin
from .spark_side import SparkSide

NOBODY = "127.0.0.1:1"


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """Returns the committed offsets of a group with one topic, as a stock client sees them."""
    admin = new_admin(bootstrap)
    try:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = asked[group].result(PATIENCE_SECONDS)
    except KafkaException:
        return {}  # the coordinator is loading its groups
    return {each.partition: each.offset for each in found.topic_partitions}


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


def test_a_query_is_a_group_with_its_lag(
    spark_session: SparkSession, spark_side: SparkSide, kafka_side: KafkaSide, tmp_path: Path
) -> None:
    topic = kafka_side.new_topic("lag", 2)
    group = f"{topic}-billing"
    kafka_side.send_values(topic, range(10), 0)
    kafka_side.send_values(topic, range(4), 1)
    with attach(spark_session, group=f"{topic}-{{query}}", bootstrap=kafka_side.bootstrap) as attachment:
        frame = spark_side.stream(subscribe=topic, startingOffsets="earliest")
        with running(frame, tmp_path / "checkpoint"):
            for _ in range(2):
                ends = kafka_side.ends(topic)
                wait_until(lambda: committed(kafka_side.bootstrap, group) == ends, PATIENCE_SECONDS, "commits")  # noqa: B023
                wait_until(lambda: shows_no_lag(attachment, ends), PATIENCE_SECONDS, "no lag")  # noqa: B023
                kafka_side.send_values(topic, range(5), 0)
        ends = kafka_side.ends(topic)
    assert not attachment.rows[0].is_active
    assert ends[0] == 20


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
    with attach(spark_session, "g", bootstrap=NOBODY), running(frame, tmp_path / "checkpoint") as query:
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
