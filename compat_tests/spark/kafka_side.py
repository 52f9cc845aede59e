"""Prepares and checks topics for the Spark tests with stock Kafka clients.

Spark is compared with what other clients see on the same broker, and not with what the test believes it sent. A test
thus fails if the two disagree, but not if a broker uses its freedom, for example when it assigns offsets.
"""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterable

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as Place
from kafka.errors import KafkaError
from msgspec import Struct
from raw import FETCH, connect, fetch_body, fetch_result
from waiting import wait_until

Headers = tuple[tuple[str, bytes | None], ...]

NOW = 0
"""librdkafka's value for the current time."""
BATCH_HEADER_SIZE = 61
LATEST, EARLIEST = OffsetSpec.latest(), OffsetSpec.earliest()  # type: ignore[no-untyped-call]
PATIENCE_SECONDS = 60.0
"""How long a broker may take to reach a condition in the background: clients retry, and cleaners take turns."""


class Row(Struct, frozen=True, order=True):
    """A record with its position, made from a row of Spark's Kafka source or from a consumer's record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ToSend(Struct, frozen=True):
    """A record without a position."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int | None = None
    headers: Headers = ()


class KafkaSide:
    """Kafka clients for the tests.

    librdkafka administers and produces, because it has every codec and survives a broker's restart. kafka-python reads.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = new_admin(bootstrap)

    # topics

    def new_topic(self, purpose: str, partitions: int = 1, **config: str) -> str:
        """Creates a topic with a unique name; settings have underscores instead of dots."""
        name = f"spark-{purpose}-{uuid.uuid4().hex[:8]}"
        self.create_topic(name, partitions, **config)
        return name

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        settings = {setting.replace("_", "."): value for setting, value in config.items()}
        self._admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(PATIENCE_SECONDS)
        self._wait_for_partitions(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, and returns when the brokers have forgotten its name, so that it can be created again."""
        self._admin.delete_topics([name])[name].result(PATIENCE_SECONDS)
        wait_until(lambda: name not in self._admin.list_topics().topics, PATIENCE_SECONDS, f"{name} deleted")

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE_SECONDS)
        self._wait_for_partitions(topic, total)

    def delete_records_before(self, topic: str, partition: int, offset: int) -> None:
        for done in self._admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            done.result(PATIENCE_SECONDS)

    def ends(self, topic: str) -> dict[int, int]:
        return self._offsets(topic, LATEST, len(self._partitions(topic)))

    def starts(self, topic: str) -> dict[int, int]:
        return self._offsets(topic, EARLIEST, len(self._partitions(topic)))

    def _partitions(self, topic: str) -> list[int]:
        return sorted(self._admin.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions)

    def _offsets(self, topic: str, spec: OffsetSpec, partitions: int) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): spec for partition in range(partitions)}
        answers = self._admin.list_offsets(asked, request_timeout=PATIENCE_SECONDS)
        return {place.partition: answer.result(PATIENCE_SECONDS).offset for place, answer in answers.items()}

    def _wait_for_partitions(self, topic: str, partitions: int) -> None:
        """Waits until every partition responds to a request for its end.

        Metadata may name a leader some time before it leads.
        """

        def all_answer() -> bool:
            try:
                return len(self._offsets(topic, LATEST, partitions)) == partitions
            except KafkaException:
                # A client that has seen fewer partitions may use only those for minutes.
                self._admin = new_admin(self.bootstrap)
                return False

        wait_until(all_answer, PATIENCE_SECONDS, f"{partitions} partitions of {topic}")

    # records

    def send(self, topic: str, records: Iterable[ToSend], codec: str = "none") -> None:
        """Sends records, and returns when all are acknowledged; the records of one call and partition form few
        batches."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                # Retries must not change the order, and a broker that is starting gives out no producer ids.
                "max.in.flight": 1,
                "compression.type": codec,
                "linger.ms": 50,
            }
        )
        failures: list[object] = []
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=lambda error, _: failures.append(error) if error else None,
                timestamp=record.timestamp_ms or NOW,
            )
        assert producer.flush(PATIENCE_SECONDS) == 0, f"{topic}: not all records were acknowledged"
        assert not failures, failures

    def send_values(self, topic: str, values: Iterable[object], partition: int = 0, codec: str = "none") -> None:
        self.send(topic, [ToSend(str(value).encode(), partition=partition) for value in values], codec)

    def rows(self, *topics: str) -> list[Row]:
        """Returns all records of the topics, in the order of topic, partition and offset."""
        ends = {Place(topic, number): end for topic in topics for number, end in self.ends(topic).items()}
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False)
        try:
            consumer.assign(list(ends))
            consumer.seek_to_beginning(*ends)
            found: list[Row] = []
            deadline = time.monotonic() + PATIENCE_SECONDS
            # A compacted partition may end with a gap, so the loop checks the position and not the last record's
            # offset.
            while any(consumer.position(place) < end for place, end in ends.items()):
                assert time.monotonic() < deadline, f"could not read {topics} to the end"
                for records in consumer.poll(timeout_ms=200).values():
                    found += [
                        Row(
                            record.topic,
                            record.partition,
                            record.offset,
                            record.timestamp,
                            record.key,
                            record.value,
                            tuple((name, value) for name, value in record.headers),
                        )
                        for record in records
                        if record.offset < ends[Place(record.topic, record.partition)]
                    ]
        finally:
            consumer.close()
        return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))

    def batch_producer_ids(self, topic: str, partition: int) -> list[int]:
        """Returns the producer id of each batch at the beginning of a partition, which no client shows.

        It works only if the bootstrap broker leads the partition.
        """
        with connect(self.bootstrap) as connection:
            answer = connection.call(FETCH, 4, fetch_body(topic, partition, 0, bytes_max=1 << 24))
        error, _, records = fetch_result(answer)
        assert error == 0, f"Fetch of {topic}-{partition} got the error {error}"
        found, position = [], 0
        while position + BATCH_HEADER_SIZE <= len(records):
            (length,) = struct.unpack_from(">i", records, position + 8)
            (producer_id,) = struct.unpack_from(">q", records, position + 43)
            found.append(producer_id)
            position += 12 + length
        return found


def new_admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """Returns the committed offsets of a group with one topic, as a stock client sees them.

    librdkafka crashes if its question meets a coordinator that is loading, so kafka-python asks.
    """
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        found = admin.list_group_offsets(group)[group]
    except KafkaError:
        return {}  # the coordinator is loading its groups
    finally:
        admin.close()
    return {place.partition: each.offset for place, each in found.items()}
