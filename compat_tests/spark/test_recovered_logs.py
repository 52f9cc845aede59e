"""Spark reads a log with a hole and a bridge, as recovery leaves it, without reporting a loss and without waiting."""

from __future__ import annotations

import pytest
from brokers import is_apache_kafka
from cluster import Broker
from pyspark.sql import SparkSession
from recovered_log import BEFORE, END, OFFSETS, RECOVERED, make_recovered
from waiting import wait_until

from tailrace.pipeline.segments.segment_source import register

from .kafka_side import PATIENCE_SECONDS, KafkaSide
from .spark_side import Job, SparkSide, offsets_json


def test_offsets_without_records_after_recovery_are_not_a_loss(
    request: pytest.FixtureRequest, broker: Broker, spark_session: SparkSession, job: Job
) -> None:
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka has another storage format")
    kafka_side, spark_side = KafkaSide(broker.bootstrap), SparkSide(spark_session, broker.bootstrap)
    topic = kafka_side.new_topic("recovered")
    make_recovered(broker, topic)
    everything = kafka_side.rows(topic)
    assert [(row.offset, row.value) for row in everything] == list(zip(OFFSETS, BEFORE + RECOVERED, strict=True))
    assert kafka_side.ends(topic) == {0: END}

    assert spark_side.rows(subscribe=topic) == everything
    # Some of these ranges lie entirely in the hole, and the last one contains only the bridge.
    assert spark_side.rows(subscribe=topic, minPartitions=END) == everything
    for start, end in ((3, 10), (10, 20), (10, 26), (27, END), (28, END)):
        starting, ending = offsets_json({topic: {0: start}}), offsets_json({topic: {0: end}})
        found = spark_side.rows(subscribe=topic, startingOffsets=starting, endingOffsets=ending)
        assert found == [row for row in everything if start <= row.offset < end]

    source = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 7}
    assert job.run_available(spark_side.stream(**source)) == everything
    kafka_side.send_values(topic, ["new"])
    assert [(row.offset, row.value) for row in job.run_available(spark_side.stream(**source))] == [(END, b"new")]

    register(spark_session)
    frame = spark_session.read.format("tailrace-segments").option("topic", topic).option("entryTypes", "all")
    entries = frame.option("includeUnsealed", "true").load(str(broker.data)).select("offset", "entryType", "value")
    wait_until(lambda: entries.count() == len(OFFSETS) + 3, PATIENCE_SECONDS, "the high watermark on the disk")
    found = [(row.offset, row.entryType) for row in entries.orderBy("offset").collect()]
    events = [(row.offset, "event") for row in kafka_side.rows(topic)]
    assert found == sorted([*events, (5, "hole"), (28, "bridge")])
