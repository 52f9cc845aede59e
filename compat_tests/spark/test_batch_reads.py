"""`spark.read.format("kafka")` reads the requested rows, and splits them into tasks."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from msgspec import Struct
from pyspark.errors import PySparkException

from .kafka_side import KafkaSide, Row, ToSend
from .spark_side import SparkSide, offsets_json

PARTITIONS = 3
ROWS_EACH = 30
STEP_MS = 1_000
SECONDS_MAX = 30


class Seeded(Struct, frozen=True):
    """Two topics, whose partitions have a record each second from `first_ms` on.

    `topic` is the first of them.
    """

    topic: str
    other: str
    prefix: str
    first_ms: int
    rows: list[Row]
    other_rows: list[Row]

    def of(self, partition: int) -> list[Row]:
        return [row for row in self.rows if row.partition == partition]


@pytest.fixture(scope="module")
def seeded(kafka_side: KafkaSide) -> Seeded:
    # One hour ago is older than any error of a clock, and younger than any retention time.
    first_ms = (int(time.time()) - 3600) * 1000
    topic = kafka_side.new_topic("orders", PARTITIONS)
    other = f"{topic}-archive"
    kafka_side.create_topic(other, 2)
    records = [
        ToSend(
            value=None if number == 7 else f"order {partition}/{number}".encode(),
            key=None if number % 5 == 0 else f"customer {number % 4}".encode(),
            partition=partition,
            timestamp_ms=first_ms + number * STEP_MS,
            headers=(("source", b"shop"), ("source", b"again"), ("empty", b""), ("none", None)) if number % 2 else (),
        )
        for partition in range(PARTITIONS)
        for number in range(ROWS_EACH)
    ]
    kafka_side.send(topic, records)
    kafka_side.send(other, [ToSend(b"archived", partition=partition, timestamp_ms=first_ms) for partition in (0, 0, 1)])
    rows, other_rows = kafka_side.rows(topic), kafka_side.rows(other)
    assert len(rows) == PARTITIONS * ROWS_EACH and len(other_rows) == 3
    return Seeded(topic, other, topic, first_ms, rows, other_rows)


def without_headers(rows: list[Row]) -> list[Row]:
    return [Row(row.topic, row.partition, row.offset, row.timestamp_ms, row.key, row.value) for row in rows]


def from_offset(rows: list[Row], first: dict[int, int], end: dict[int, int] | None = None) -> list[Row]:
    """Returns a range of rows of each partition without headers, which Spark omits by default."""
    return without_headers(
        [
            row
            for row in rows
            if row.offset >= first.get(row.partition, 0) and (end is None or row.offset < end[row.partition])
        ]
    )


def test_each_way_to_name_topics_reads_every_record(spark_side: SparkSide, seeded: Seeded) -> None:
    assert spark_side.rows(subscribe=seeded.topic, includeHeaders="true") == seeded.rows
    assert spark_side.rows(subscribe=seeded.topic) == without_headers(seeded.rows)
    both = without_headers(seeded.rows + seeded.other_rows)
    assert spark_side.rows(subscribe=f"{seeded.topic},{seeded.other}") == both
    assert spark_side.rows(subscribePattern=f"{seeded.prefix}.*") == both
    assert spark_side.rows(subscribePattern=f"{seeded.prefix}-arch.ve") == without_headers(seeded.other_rows)
    # Without open transactions, everything is committed.
    committed = {"kafka.isolation.level": "read_committed"}
    assert spark_side.rows(subscribe=seeded.topic, **committed) == without_headers(seeded.rows)
    one = f'{{"{seeded.topic}": [1]}}'
    assert spark_side.rows(assign=one, includeHeaders="true") == seeded.of(1)


def test_committed_reads_skip_aborted_transactions_and_end_before_open_ones(
    spark_side: SparkSide, kafka_side: KafkaSide, bootstrap: str
) -> None:
    topic = kafka_side.new_topic("transactions", PARTITIONS)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(SECONDS_MAX)
    values: dict[str, list[bytes]] = {"aborted": [], "committed": [], "open": []}
    for number, end in enumerate(["aborted", "committed", "committed", "aborted", "committed", "aborted", "open"]):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for index in range(10):
                values[end].append(f"{end} {number}/{partition}/{index}".encode())
                producer.produce(topic, values[end][-1], partition=partition)
        assert producer.flush(SECONDS_MAX) == 0
        if end == "committed":
            producer.commit_transaction(SECONDS_MAX)
        elif end == "aborted":
            producer.abort_transaction(SECONDS_MAX)
    committed = {"kafka.isolation.level": "read_committed"}
    found = [row.value for row in spark_side.rows(subscribe=topic, **committed)]
    assert sorted(found) == sorted(values["committed"])
    everything = [row.value for row in spark_side.rows(subscribe=topic)]
    assert sorted(everything) == sorted(value for each in values.values() for value in each)
    producer.abort_transaction(SECONDS_MAX)


def test_offsets_bound_the_range(spark_side: SparkSide, seeded: Seeded) -> None:
    topic = seeded.topic
    middle = spark_side.rows(
        subscribe=topic,
        startingOffsets=offsets_json({topic: {0: 10, 1: -2, 2: 29}}),
        endingOffsets=offsets_json({topic: {0: 20, 1: 1, 2: -1}}),
    )
    assert middle == from_offset(seeded.rows, {0: 10, 1: 0, 2: 29}, {0: 20, 1: 1, 2: 30})
    nothing = spark_side.rows(
        subscribe=topic,
        startingOffsets=offsets_json({topic: {0: 30, 1: 5, 2: 0}}),
        endingOffsets=offsets_json({topic: {0: -1, 1: 5, 2: 0}}),
    )
    assert nothing == []


def test_timestamps_bound_the_range_exactly(spark_side: SparkSide, seeded: Seeded) -> None:
    topic, first_ms = seeded.topic, seeded.first_ms
    tenth = first_ms + 10 * STEP_MS
    for started_ms, offset in [(tenth, 10), (tenth - 1, 10), (tenth + 1, 11), (0, 0)]:
        found = spark_side.rows(subscribe=topic, startingTimestamp=started_ms)
        assert found == from_offset(seeded.rows, dict.fromkeys(range(PARTITIONS), offset)), started_ms
    found = spark_side.rows(subscribe=topic, startingTimestamp=tenth, endingTimestamp=tenth + 5 * STEP_MS)
    assert found == from_offset(seeded.rows, {0: 10, 1: 10, 2: 10}, {0: 15, 1: 15, 2: 15})
    found = spark_side.rows(
        subscribe=topic,
        startingOffsetsByTimestamp=offsets_json({topic: {0: first_ms, 1: tenth, 2: tenth + 1}}),
        # A time after the last record means the end.
        endingOffsetsByTimestamp=offsets_json({topic: {0: first_ms + 1, 1: tenth + STEP_MS, 2: first_ms + 10**9}}),
    )
    assert found == from_offset(seeded.rows, {0: 0, 1: 10, 2: 11}, {0: 1, 1: 11, 2: 30})


def test_a_start_time_after_the_last_record_fails_or_reads_nothing_as_asked(
    spark_side: SparkSide, seeded: Seeded
) -> None:
    after = {"subscribe": seeded.topic, "startingTimestamp": seeded.first_ms + ROWS_EACH * STEP_MS}
    with pytest.raises(PySparkException, match="No offset matched"):
        spark_side.rows(**after)
    with pytest.raises(PySparkException, match="No offset matched"):
        spark_side.rows(**after, startingOffsetsByTimestampStrategy="error")
    assert spark_side.rows(**after, startingOffsetsByTimestampStrategy="latest") == []


def test_a_time_finds_the_first_record_not_before_it_in_any_order(kafka_side: KafkaSide, spark_side: SparkSide) -> None:
    """Producers' clocks differ, so times fall within a batch and from batch to batch, but the result is still exact."""
    topic = kafka_side.new_topic("unordered")
    now_ms = (int(time.time()) - 3600) * 1000
    delays_ms = [0, 5000, 1000, 9000, 2000, 30_000, 1, 2, 3, 31_000]
    records = [ToSend(b"%d" % delay, timestamp_ms=now_ms + delay) for delay in delays_ms]
    kafka_side.send(topic, records[:4])
    kafka_side.send(topic, records[4:])
    expected = kafka_side.rows(topic)
    for delay_ms, offset in [(1001, 1), (5001, 3), (9001, 5), (30_000, 5), (30_001, 9)]:
        found = spark_side.rows(subscribe=topic, startingTimestamp=now_ms + delay_ms)
        assert found == expected[offset:], delay_ms


def test_ranges_split_into_tasks_without_loss_or_overlap(spark_side: SparkSide, seeded: Seeded) -> None:
    # This version respects the maximum size of a batch read's task only if it splits at all.
    by_size = {"minPartitions": PARTITIONS + 1, "maxRecordsPerPartition": 7}
    for options, tasks_min in [({"minPartitions": 9}, 9), (by_size, PARTITIONS * 5)]:
        frame = spark_side.frame(subscribe=seeded.topic, **options)
        tasks: dict[int, list[tuple[int, int]]] = {}
        for row in frame.selectExpr("spark_partition_id() AS task", "partition", "offset").collect():
            tasks.setdefault(row["task"], []).append((row["partition"], row["offset"]))
        assert len(tasks) >= tasks_min
        for places in tasks.values():
            first = places[0]
            assert places == [(first[0], first[1] + number) for number in range(len(places))]
        read = sorted(place for places in tasks.values() for place in places)
        assert read == [(row.partition, row.offset) for row in seeded.rows]


def test_many_partitions_and_tasks_read_ranges_of_the_same_log_at_once(
    kafka_side: KafkaSide, spark_side: SparkSide
) -> None:
    partitions, rows_each = 12, 500
    topic = kafka_side.new_topic("wide", partitions)
    filler = b"." * 200
    for round_number in range(5):
        kafka_side.send(
            topic,
            [
                ToSend(b"%d %d" % (partition, round_number * 100 + number) + filler, partition=partition)
                for partition in range(partitions)
                for number in range(rows_each // 5)
            ],
        )
    expected = kafka_side.rows(topic)
    assert len(expected) == partitions * rows_each
    assert spark_side.rows(subscribe=topic, minPartitions=48) == expected


def test_all_codecs_are_read_even_within_one_partition(kafka_side: KafkaSide, spark_side: SparkSide) -> None:
    topic = kafka_side.new_topic("codecs")
    sent: list[bytes] = []
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] * 2:
        values = [f"{codec} {number} " * 40 for number in range(50)]
        kafka_side.send_values(topic, values, codec=codec)
        sent += [value.encode() for value in values]
    found = spark_side.rows(subscribe=topic, minPartitions=7)
    assert [row.value for row in found] == sent
    assert [row.offset for row in found] == list(range(len(sent)))
    # A range that begins inside a compressed batch begins with its own first record.
    tail = spark_side.rows(subscribe=topic, startingOffsets=offsets_json({topic: {0: 475}}))
    assert tail == found[475:]
