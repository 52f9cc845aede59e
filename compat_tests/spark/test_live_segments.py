"""`tailrace-segments` reads a log while its SPU appends, compacts and deletes: right rows, or one clear error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from brokers import is_apache_kafka
from cluster import Tailrace
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from waiting import wait_until

from tailrace.pipeline.archive import archive, verify
from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.segment_options import OptionError, read_options
from tailrace.pipeline.segments.segment_reading import SegmentGoneError
from tailrace.pipeline.segments.segment_rows import RowSettings, rows_of
from tailrace.pipeline.segments.segment_source import register

from .kafka_side import PATIENCE_SECONDS, KafkaSide

SETTINGS = {"log.cleaner.backoff.ms": "50"}
TINY = {"internal_segment_bytes": "12000", "index_interval_bytes": "1000"}
"""Segments of a second. Each is a task."""
COMPACT = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.001", "min_compaction_lag_ms": "0"}
GONE = re.compile(r"/\d{20}\.log: offsets \d+ to \d+ of \S+ were deleted after the query was planned")
"""The only error that is allowed."""
AT_ONCE = 10
PAUSE_SECONDS = 0.05
KEPT = 2000
"""How many records are not deleted: more than the SPU appends between two checkpoints of its high watermark."""
QUERIES, DIRECT_READS = 2, 20

Records = dict[int, tuple[bytes, bytes]]
"""The key and the value at each offset."""


class LiveTopic:
    """A topic to which a thread appends. Some keys come once, and others again and again."""

    def __init__(self, side: KafkaSide, purpose: str, *, is_trimmed: bool, **config: str) -> None:
        self.side, self.is_trimmed = side, is_trimmed
        self.name = side.new_topic(purpose, **TINY, **config)
        self.records: Records = {}
        """What the broker has acknowledged."""
        self.start = 0
        """Records before it may be deleted."""

    @contextmanager
    def growing(self) -> Iterator[None]:
        stop = Event()
        thread = Thread(target=self._grow, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _grow(self, stop: Event) -> None:
        producer = Producer({"bootstrap.servers": self.side.bootstrap, "acks": "all", "linger.ms": 1})
        number = 0
        while not stop.wait(PAUSE_SECONDS if number > KEPT else 0):
            for _ in range(AT_ONCE):
                key = b"once-%d" % number if number % 5 == 0 else b"key-%d" % (number % 7)
                producer.produce(self.name, b"%040d" % number, key, on_delivery=self._on_delivery)
                number += 1
            producer.flush()
            if self.is_trimmed and number - self.start >= KEPT + 10 * AT_ONCE:
                self.start = number - KEPT
                self.side.delete_records_before(self.name, 0, self.start)

    def _on_delivery(self, error: object, message: Message) -> None:
        assert error is None
        offset, key, value = message.offset(), message.key(), message.value()
        assert offset is not None and isinstance(key, bytes) and isinstance(value, bytes)
        self.records[offset] = key, value

    def check(self, found: list[tuple[int, bytes, bytes]]) -> int:
        """Checks the rows of a query, and returns how many offsets between 0 and the last have none."""
        offsets = sorted(offset for offset, _, _ in found)
        if not offsets:  # the high watermark on the disk is old, and everything before it was deleted
            return 0
        assert len(set(offsets)) == len(offsets), "a record came twice"
        for offset, key, value in found:
            if offset in self.records:  # the acknowledgement of the last ones may be on its way
                assert self.records[offset] == (key, value)
        first, last = offsets[0], offsets[-1]
        if self.is_trimmed:
            assert first <= self.start
            assert offsets == list(range(first, last + 1))
        else:
            once = {offset for offset, (key, _) in dict(self.records).items() if key.startswith(b"once")}
            assert {offset for offset in once if offset <= last} <= set(offsets)
        return last + 1 - len(offsets)


@pytest.fixture(scope="module")
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tailrace]:
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka has another storage format")
    broker = Tailrace(tmp_path_factory.mktemp("live"), SETTINGS)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def _read_directly(data: Path, topic: str) -> list[tuple[int, bytes, bytes]]:
    """Reads what a query would read, in this process: many times in the time of one query."""
    options = read_options({"path": str(data), "topic": topic, "includeUnsealed": "true"}, is_streaming=False)
    settings = RowSettings(("offset", "key", "value"), False, True, options.entry_types, None, False, True)
    found = []
    for task in QueryPlan(options).tasks():
        for batch in rows_of(task, settings):
            found += [(row["offset"], row["key"], row["value"]) for row in batch.to_pylist()]
    return found


@contextmanager
def clear_error_allowed() -> Iterator[None]:
    """Lets the block fail if a segment was deleted meanwhile, and the error says so."""
    try:
        yield
    except (PySparkException, SegmentGoneError) as error:
        assert GONE.search(str(error)), error


def _has_rows(data: Path, topic: str) -> bool:
    try:
        return bool(_read_directly(data, topic))
    except OptionError:  # the SPU has not written the directory or the high watermark
        return False


def _query(session: SparkSession, data: Path, topic: str) -> list[tuple[int, bytes, bytes]]:
    frame = session.read.format("tailrace-segments").option("topic", topic).option("includeUnsealed", "true")
    rows = frame.load(str(data)).select("offset", "key", "value").collect()
    return [(row.offset, bytes(row.key), bytes(row.value)) for row in rows]


def test_queries_and_a_stream_read_logs_that_change(
    live: Tailrace, spark_session: SparkSession, tmp_path: Path
) -> None:
    register(spark_session)
    side = KafkaSide(live.bootstrap)
    compacted = LiveTopic(side, "live-compacted", is_trimmed=False, **COMPACT)
    trimmed = LiveTopic(side, "live-trimmed", is_trimmed=True)
    topics = (compacted, trimmed)
    streamed: dict[str, list[tuple[int, bytes, bytes]]] = {each.name: [] for each in topics}

    def keep(batch: DataFrame, number: int) -> None:
        for row in batch.orderBy("offset").collect():
            streamed[row.topic].append((row.offset, bytes(row.key), bytes(row.value)))

    source = spark_session.readStream.format("tailrace-segments").option("topic", ",".join(streamed))
    frame = source.option("failOnDataLoss", "false").load(str(live.data)).select("topic", "offset", "key", "value")
    with compacted.growing(), trimmed.growing():
        for each in topics:
            wait_until(lambda: _has_rows(live.data, each.name), PATIENCE_SECONDS, "a saved high watermark")  # noqa: B023
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start()
        gaps = {each.name: 0 for each in topics}
        queries = 0
        try:
            # Spark gives the process that plans the stream 10 s to start, so nothing else takes the cores until then.
            wait_until(lambda: all(streamed.values()) or query.exception(), PATIENCE_SECONDS, "the stream reads")
            while queries < QUERIES * len(topics) or not all(gaps.values()):
                for each in topics:
                    with clear_error_allowed():
                        gaps[each.name] += each.check(_query(spark_session, live.data, each.name))
                        queries += 1
                    for _ in range(DIRECT_READS):
                        with clear_error_allowed():
                            gaps[each.name] += each.check(_read_directly(live.data, each.name))
                assert query.exception() is None
        finally:
            query.stop()
    for each in topics:
        offsets = [offset for offset, _, _ in streamed[each.name]]
        assert offsets == sorted(set(offsets)), "a batch of the stream read a record again"
    compacted.check(streamed[compacted.name])


def _committed(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes]]:
    """Returns what a consumer of committed records sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "committed",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes]] = []
    try:
        while True:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None
            if message.error() is not None:
                return found
            offset, key, value = message.offset(), message.key(), message.value()
            assert offset is not None and isinstance(key, bytes) and isinstance(value, bytes)
            found.append((offset, key, value))
    finally:
        consumer.close()


def test_segments_show_of_transactions_what_consumers_of_committed_records_see(
    spark_session: SparkSession, live: Tailrace, tmp_path: Path
) -> None:
    topic = KafkaSide(live.bootstrap).new_topic("transactions", **TINY)
    for codec in ("none", "zstd"):
        producer = Producer(
            {"bootstrap.servers": live.bootstrap, "transactional.id": f"tx-{codec}", "compression.type": codec}
        )
        producer.init_transactions()
        for number in range(30):
            producer.begin_transaction()
            for each in range(20):
                producer.produce(topic, b"%0100d" % number, b"key-%d" % each)
            producer.flush()
            if number % 3:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    left_open = Producer({"bootstrap.servers": live.bootstrap, "transactional.id": "open"})
    left_open.init_transactions()
    left_open.begin_transaction()
    left_open.produce(topic, b"open", b"key")
    left_open.flush()
    KafkaSide(live.bootstrap).send_values(topic, range(5))  # behind the open transaction
    expected = _committed(live.bootstrap, topic)
    assert len(expected) == 2 * 20 * 20
    wait_until(lambda: _has_rows(live.data, topic), PATIENCE_SECONDS, "a saved high watermark")
    wait_until(lambda: _read_directly(live.data, topic) == expected, PATIENCE_SECONDS, "the committed records")
    to = str(tmp_path / "archive")
    assert archive(spark_session, [topic], to, segments=[str(live.data)]).records == len(expected)
    result = verify(spark_session, to, brokers=[live.bootstrap])
    assert result.is_ok, result.text()
    (partition,) = result.partitions
    assert (partition.gaps["aborted"], partition.gaps["marker"]) == (2 * 10 * 20, 2 * 30)
    left_open.abort_transaction()
