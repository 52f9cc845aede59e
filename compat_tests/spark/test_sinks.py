"""`write.format("kafka")` and `writeStream.format("kafka")` write exactly the given rows, to where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, functions
from waiting import wait_until

from .kafka_side import PATIENCE_SECONDS, Headers, KafkaSide, Row, ToSend
from .spark_side import SparkSide

FULL = "topic STRING, partition INT, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def content(rows: list[Row]) -> list[tuple[object, ...]]:
    """Returns what a producer decides about each row, sorted, because the sink's tasks run at the same time."""
    found = [(row.topic, row.partition, row.key, row.value, row.headers) for row in rows]
    return sorted(found, key=repr)


def write(frame: DataFrame, bootstrap: str, **options: str) -> None:
    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options).save()


def test_a_batch_is_written_where_each_row_says_and_is_idempotent(kafka_side: KafkaSide, spark_side: SparkSide) -> None:
    first, second = kafka_side.new_topic("sink-a", 3), kafka_side.new_topic("sink-b", 2)
    rows: list[tuple[str, int, bytes, bytes | None, Headers]] = []
    for number in range(60):
        topic, partitions = (first, 3) if number % 3 else (second, 2)
        headers: Headers = (("number", b"%d" % number), ("empty", b""), ("none", None)) if number % 2 else ()
        value = None if number % 10 == 9 else b"value %d" % number
        rows.append((topic, number // 3 % partitions, b"key %d" % number, value, headers))
    write(spark_side.frame_to_write(rows, FULL).repartition(4), spark_side.bootstrap)

    assert content(kafka_side.rows(first, second)) == sorted(rows, key=repr)
    # A batch without a producer id would come from a producer that may write a record twice.
    for topic, partition in [(first, 0), (first, 1), (first, 2), (second, 0), (second, 1)]:
        producer_ids = kafka_side.batch_producer_ids(topic, partition)
        assert producer_ids and min(producer_ids) >= 0
    assert spark_side.rows(subscribe=f"{first},{second}", includeHeaders="true") == kafka_side.rows(first, second)


@pytest.mark.parametrize("settings", [{"codec": "gzip"}, {"codec": "zstd"}, {"codec": "lz4", "acks": "1"}])
def test_the_producers_settings_reach_the_broker(
    kafka_side: KafkaSide, spark_side: SparkSide, settings: dict[str, str]
) -> None:
    topic = kafka_side.new_topic("sink-settings", 2)
    frame = spark_side.session.range(500).selectExpr(
        "CAST(id AS STRING) AS key", "repeat(CAST(id AS STRING), 50) AS value"
    )
    options = {"kafka.compression.type": settings["codec"], "kafka.acks": settings.get("acks", "all"), "topic": topic}
    write(frame, spark_side.bootstrap, **options)
    found = spark_side.rows(subscribe=topic)
    assert sorted((row.key, row.value) for row in found) == sorted(
        (b"%d" % number, b"%d" % number * 50) for number in range(500)
    )
    # Without a partition column, the key decides, with the same hash as in every Kafka client that follows Java's.
    assert {row.partition for row in found} == {0, 1}


def test_a_stream_is_copied_exactly_once_over_its_restarts(
    kafka_side: KafkaSide, spark_side: SparkSide, tmp_path: Path
) -> None:
    source, sink, late = (kafka_side.new_topic(name, 2) for name in ("copied", "copy", "copy-late"))
    stream = spark_side.stream(
        subscribe=source, startingOffsets="earliest", includeHeaders="true", maxOffsetsPerTrigger=20
    ).select(
        functions.when(functions.col("offset") < 15, sink).otherwise(late).alias("topic"),
        "partition",
        "key",
        functions.upper(functions.col("value").cast("string")).alias("value"),
        "headers",
    )

    def copy_available() -> None:
        query = (
            stream.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", spark_side.bootstrap)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(int(PATIENCE_SECONDS))
        finally:
            query.stop()

    def expected() -> list[tuple[object, ...]]:
        rows = [
            (sink if row.offset < 15 else late, row.partition, row.key, (row.value or b"").upper(), row.headers)
            for row in kafka_side.rows(source)
        ]
        return sorted(rows, key=repr)

    def send(count: int, name: str) -> None:
        for partition in (0, 1):
            values = [ToSend(f"{name} {n}".encode(), b"key", partition, headers=(("h", b"v"),)) for n in range(count)]
            kafka_side.send(source, values)

    send(20, "first")
    copy_available()
    assert content(kafka_side.rows(sink, late)) == expected()
    send(5, "second")
    copy_available()
    copied = kafka_side.rows(sink, late)
    assert content(copied) == expected()
    # Rows of one partition keep their order, because they pass through one task per batch.
    for partition in (0, 1):
        in_order = [row.value for row in copied if row.topic == sink and row.partition == partition]
        assert in_order == [b"FIRST %d" % n for n in range(15)]


def test_a_running_sink_writes_rows_as_they_arrive(
    kafka_side: KafkaSide, spark_side: SparkSide, tmp_path: Path
) -> None:
    source, sink = kafka_side.new_topic("live"), kafka_side.new_topic("live-copy")
    query = (
        spark_side.stream(subscribe=source, startingOffsets="earliest")
        .select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", spark_side.bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        for total in (3, 6, 9):
            kafka_side.send_values(source, range(total - 3, total))

            def has_all(end: int = total) -> bool:
                return kafka_side.ends(sink)[0] >= end

            wait_until(has_all, PATIENCE_SECONDS, "the rows are in the sink")
    finally:
        query.stop()
    assert [row.value for row in kafka_side.rows(sink)] == [str(n).encode() for n in range(9)]
