"""`spark.readStream.format("kafka")` reads every record once, across stops, limits, new partitions and new topics."""

from __future__ import annotations

import json

from waiting import wait_until

from .kafka_side import PATIENCE_SECONDS, KafkaSide, ToSend
from .spark_side import Job, SparkSide


def test_a_job_continues_at_its_checkpoint_within_its_limit_and_knows_its_lag(
    kafka_side: KafkaSide, spark_side: SparkSide, job: Job
) -> None:
    topic = kafka_side.new_topic("available", 3)
    for partition in range(3):
        kafka_side.send_values(topic, range(40), partition)
    stream = spark_side.stream(
        subscribe=topic,
        startingOffsets="earliest",
        includeHeaders="true",
        maxOffsetsPerTrigger=48,
        maxRecordsPerPartition=5,
    )

    assert job.run_available(stream) == kafka_side.rows(topic)
    assert [len(job.batches[number]) for number in sorted(job.batches)] == [48, 48, 24]
    behind = [progress["sources"][0]["metrics"]["maxOffsetsBehindLatest"] for progress in job.progress]
    assert [int(offsets) for offsets in behind[:3]] == [24, 8, 0]

    kafka_side.send(topic, [ToSend(b"more", b"key", partition=2, headers=(("name", b"value"),))] * 5)
    added = job.run_available(stream)
    assert [(row.partition, row.offset, row.value) for row in added] == [(2, 40 + n, b"more") for n in range(5)]
    (source,) = job.progress[0]["sources"]
    assert source["numInputRows"] == 5
    assert source["endOffset"] == source["latestOffset"] == {topic: {"0": 40, "1": 40, "2": 45}}
    assert int(source["metrics"]["maxOffsetsBehindLatest"]) == 0

    batches_before = len(job.batches)
    assert job.run_available(stream) == [] and len(job.batches) == batches_before
    assert job.rows == kafka_side.rows(topic)


def test_a_running_job_sees_new_records_new_partitions_and_new_topics(
    kafka_side: KafkaSide, spark_side: SparkSide, job: Job
) -> None:
    prefix = kafka_side.new_topic("pattern")
    kafka_side.send_values(prefix, range(10))
    stream = spark_side.stream(
        subscribePattern=f"{prefix}.*", startingOffsets="earliest", **{"kafka.metadata.max.age.ms": "1000"}
    )

    def has_read(*topics: str) -> bool:
        # Without this check, a failed query would only show as a timeout.
        assert query.exception() is None
        return len(job.rows) == sum(sum(kafka_side.ends(topic).values()) for topic in topics)

    with job.running(stream, processingTime="100 milliseconds") as query:
        wait_until(lambda: has_read(prefix), PATIENCE_SECONDS, "the first records are read")
        for number in range(3):
            kafka_side.send_values(prefix, [f"round {number}"] * 7)
            wait_until(lambda: has_read(prefix), PATIENCE_SECONDS, "the later records are read")
        kafka_side.add_partitions(prefix, 3)
        kafka_side.send_values(prefix, ["in a new partition"] * 4, partition=2)
        wait_until(lambda: has_read(prefix), PATIENCE_SECONDS, "the new partition's records are read")
        second = f"{prefix}-second"
        kafka_side.create_topic(second, 2)
        kafka_side.send_values(second, ["in a new topic"] * 6, partition=1)
        wait_until(lambda: has_read(prefix, second), PATIENCE_SECONDS, "the new topic's records are read")
        ends = {prefix: {"0": 31, "1": 0, "2": 4}, second: {"0": 0, "1": 6}}

        def has_reported() -> bool:
            latest = query.lastProgress
            return latest is not None and json.loads(latest.json)["sources"][0]["endOffset"] == ends

        wait_until(has_reported, PATIENCE_SECONDS, f"progress up to {ends}")
    assert job.rows == kafka_side.rows(prefix, second)
    assert len(job.batches) >= 6


def test_latest_is_where_the_job_was_first_started(kafka_side: KafkaSide, spark_side: SparkSide, job: Job) -> None:
    topic = kafka_side.new_topic("latest")
    kafka_side.send_values(topic, range(5))
    stream = spark_side.stream(subscribe=topic, startingOffsets="latest")
    assert job.run_available(stream) == []
    kafka_side.send_values(topic, range(5, 9))
    assert job.run_available(stream) == kafka_side.rows(topic)[5:]
