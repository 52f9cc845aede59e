"""The work that the bench of Spark compares: each function does it once, and returns how many records it
has handled."""

import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from tailrace.pipeline.archive import archive
from tailrace.pipeline.replay import replay

PARTITIONS = 4
AGGREGATE = ("count(*)", "sum(length(value))", "max(offset)")
LESS_AGGREGATE = ("count(*)", "sum(length(key))", "sum(length(value))")
SPARK, TAILRACE = "Spark", "Tailrace"
ALL, VALUES, HEADERS, COUNTS, ARCHIVE, REPLAY = "all", "values", "headers", "counts", "archive", "replay"


class Place(Struct, frozen=True):
    """Where the work is done: a session, a running broker, and one of its topics."""

    session: SparkSession
    bootstrap: str
    data: Path
    """The data directory of the SPUs."""
    topic: str
    scratch: Path

    def kafka(self, **options: str) -> DataFrame:
        reader = self.session.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("subscribe", self.topic).options(**options).load()

    def segments(self, **options: str) -> DataFrame:
        reader = self.session.read.format("tailrace-segments").options(topic=self.topic, includeUnsealed="true")
        return reader.options(**options).load(str(self.data))

    def new_directory(self) -> str:
        return str(self.scratch / uuid.uuid4().hex)

    def new_topic(self) -> str:
        name = f"copy-{uuid.uuid4().hex[:8]}"
        wanted = NewTopic(name, PARTITIONS, 1, config={"retention.ms": "-1"})
        admin = self.admin()
        admin.create_topics([wanted])[name].result(30)
        return name

    def drop_topic(self, name: str) -> None:
        admin = self.admin()
        admin.delete_topics([name])[name].result(30)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})


def _first(frame: DataFrame, *expressions: str) -> int:
    """Returns the first value of an aggregate over the frame."""
    return int(frame.selectExpr(*expressions).collect()[0][0])


def _spark_archive(place: Place) -> int:
    directory = place.new_directory()
    try:
        place.kafka(includeHeaders="true").write.parquet(directory)
        return place.session.read.parquet(directory).count()
    finally:
        shutil.rmtree(directory)


def _archive(place: Place, **source: list[str]) -> int:
    directory = place.new_directory()
    try:
        return archive(place.session, [place.topic], directory, **source).records
    finally:
        shutil.rmtree(directory)


def _spark_replay(place: Place) -> int:
    topic = place.new_topic()
    try:
        rows = place.segments(columns="key,value,partition,headers")
        writer = rows.write.format("kafka").option("kafka.bootstrap.servers", place.bootstrap)
        writer.option("topic", topic).option("includeHeaders", "true").save()
        return _end_of(place, topic)
    finally:
        place.drop_topic(topic)


def _replay(place: Place) -> int:
    topic, directory = place.new_topic(), place.new_directory()
    try:
        replay(
            place.session,
            from_segments=[str(place.data)],
            bootstrap=place.bootstrap,
            map_directory=directory,
            compression="none",  # as Spark's sink
            topic=place.topic,
            to_topic=topic,
        )
        return _end_of(place, topic)
    finally:
        place.drop_topic(topic)
        shutil.rmtree(directory)


def _end_of(place: Place, topic: str) -> int:
    """Returns how many records the topic has."""
    consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": "bench"})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, each), 30)[1] for each in range(PARTITIONS))
    finally:
        consumer.close()


Work = Callable[[Place], int]
SEGMENTS_ARCHIVE = "archive-segments"
WORK: Mapping[tuple[str, str], Work] = {
    (ALL, SPARK): lambda place: _first(place.kafka(), *AGGREGATE),
    (ALL, TAILRACE): lambda place: _first(place.segments(), *AGGREGATE),
    (VALUES, SPARK): lambda place: _first(place.kafka(), *LESS_AGGREGATE),
    (VALUES, TAILRACE): lambda place: _first(place.segments(columns="key,value"), *LESS_AGGREGATE),
    (HEADERS, SPARK): lambda place: _first(place.kafka(includeHeaders="true"), *AGGREGATE, "sum(size(headers))"),
    (HEADERS, TAILRACE): lambda place: _first(place.segments(includeHeaders="true"), *AGGREGATE, "sum(size(headers))"),
    (COUNTS, SPARK): lambda place: _first(place.kafka(), "count(*)", "max(offset)"),
    (COUNTS, TAILRACE): lambda place: _first(place.segments(headerOnly="true"), "sum(records)", "max(lastOffset)"),
    (ARCHIVE, SPARK): _spark_archive,
    (ARCHIVE, TAILRACE): lambda place: _archive(place, brokers=[place.bootstrap]),
    (SEGMENTS_ARCHIVE, TAILRACE): lambda place: _archive(place, segments=[str(place.data)]),
    (REPLAY, SPARK): _spark_replay,
    (REPLAY, TAILRACE): _replay,
}
"""What each system does in each case."""
