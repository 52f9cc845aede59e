"""Spark reports lost records if they were deleted, but not if they were compacted away."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from waiting import wait_until

from .kafka_side import KafkaSide, Row, ToSend
from .spark_side import Job, SparkSide, offsets_json

CLEANER_PATIENCE_SECONDS = 90
"""How long a cleaner may take on a broker that was already running, as it may sleep 15 s without work."""
VIEWS_AT_REST = 5


def test_a_batch_read_of_deleted_records_fails_or_reads_what_is_left(
    kafka_side: KafkaSide, spark_side: SparkSide
) -> None:
    topic = kafka_side.new_topic("deleted", 2)
    for partition in (0, 1):
        kafka_side.send_values(topic, range(20), partition)
    everything = kafka_side.rows(topic)
    kafka_side.delete_records_before(topic, 0, 12)
    assert kafka_side.starts(topic) == {0: 12, 1: 0}
    left = kafka_side.rows(topic)
    assert left == [row for row in everything if row.partition == 1 or row.offset >= 12]

    assert spark_side.rows(subscribe=topic) == left
    lost = {"subscribe": topic, "startingOffsets": offsets_json({topic: {0: 3, 1: 5}})}
    expected = [row for row in left if row.partition == 0 or row.offset >= 5]
    with pytest.raises(Py4JJavaError, match=r"Could not read records in offset \[3, 20\)"):
        spark_side.rows(**lost)
    assert spark_side.rows(**lost, failOnDataLoss="false") == expected
    # If all requested records are gone, there is nothing left to read.
    gone = spark_side.rows(**lost, failOnDataLoss="false", endingOffsets=offsets_json({topic: {0: 10, 1: 5}}))
    assert gone == []


def test_a_stream_whose_next_records_were_deleted_fails_or_continues_after_them(
    kafka_side: KafkaSide, spark_side: SparkSide, job: Job
) -> None:
    topic = kafka_side.new_topic("deleted-ahead")
    kafka_side.send_values(topic, range(10))
    source = {"subscribe": topic, "startingOffsets": "earliest"}
    assert len(job.run_available(spark_side.stream(**source))) == 10
    kafka_side.send_values(topic, range(10, 30))
    kafka_side.delete_records_before(topic, 0, 15)

    with pytest.raises(StreamingQueryException, match=r"Could not read records in offset \[10, 30\)"):
        job.run_available(spark_side.stream(**source))
    assert job.run_available(spark_side.stream(**source, failOnDataLoss="false")) == kafka_side.rows(topic)


def test_the_gaps_of_a_compacted_topic_are_not_a_loss(kafka_side: KafkaSide, spark_side: SparkSide, job: Job) -> None:
    topic = kafka_side.new_topic(
        "compacted",
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        min_compaction_lag_ms="0",
    )
    keys = [b"key %d" % number for number in range(10)]

    def write_each_key(value: bytes) -> None:
        kafka_side.send(topic, [ToSend(value, key) for key in keys])

    for value in (b"first", b"second", b"third"):
        write_each_key(value)
    # The job stops where compaction will leave a gap, so that its next offset will no longer exist.
    next_offset = kafka_side.ends(topic)[0]
    source = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": "true"}
    job.run_available(spark_side.stream(**source))

    def is_compacted() -> bool:
        # A segment is sealed, and so may be compacted, only when a later record arrives.
        write_each_key(b"later")
        return kafka_side.rows(topic)[0].offset > next_offset

    wait_until(is_compacted, CLEANER_PATIENCE_SECONDS, f"{topic} compacted")
    left = rows_at_rest(kafka_side, topic)
    assert len(left) < kafka_side.ends(topic)[0] - next_offset
    assert spark_side.rows(subscribe=topic) == left
    # Some of these ranges lie entirely in a gap.
    assert spark_side.rows(subscribe=topic, minPartitions=12, startingOffsets="earliest") == left
    within_the_gap = offsets_json({topic: {0: 1}}), offsets_json({topic: {0: next_offset}})
    assert spark_side.rows(subscribe=topic, startingOffsets=within_the_gap[0], endingOffsets=within_the_gap[1]) == []
    assert job.run_available(spark_side.stream(**source)) == left
    assert rows_at_rest(kafka_side, topic) == left, "the cleaner was still running while Spark was reading"


def rows_at_rest(kafka_side: KafkaSide, topic: str) -> list[Row]:
    """Returns the rows of a compacted topic once the cleaner leaves it alone."""
    views: list[list[Row]] = []

    def is_at_rest() -> bool:
        views.append(kafka_side.rows(topic))
        return views[-VIEWS_AT_REST:] == views[-1:] * VIEWS_AT_REST

    wait_until(is_at_rest, CLEANER_PATIENCE_SECONDS, f"{topic} is left alone by the cleaner")
    return views[-1]


def test_a_recreated_topic_is_read_from_its_own_beginning(
    kafka_side: KafkaSide, spark_side: SparkSide, job: Job
) -> None:
    topic = kafka_side.new_topic("again")
    kafka_side.send_values(topic, [f"old {number}" for number in range(20)])
    source = {"subscribe": topic, "startingOffsets": "earliest"}
    assert len(job.run_available(spark_side.stream(**source))) == 20
    kafka_side.delete_topic(topic)
    kafka_side.create_topic(topic)
    kafka_side.send_values(topic, [f"new {number}" for number in range(5)])

    expected = kafka_side.rows(topic)
    assert [row.value for row in expected] == [b"new %d" % number for number in range(5)]
    assert spark_side.rows(subscribe=topic) == expected
    # The checkpoint's offset 20 lies after the new end, which is 5, and only the user may accept that.
    with pytest.raises(StreamingQueryException, match="offset was changed from 20 to 5"):
        job.run_available(spark_side.stream(**source))
    assert job.run_available(spark_side.stream(**source, failOnDataLoss="false")) == []
    kafka_side.send_values(topic, [f"new {number}" for number in range(5, 8)])
    added = job.run_available(spark_side.stream(**source, failOnDataLoss="false"))
    assert added == kafka_side.rows(topic)[5:]
