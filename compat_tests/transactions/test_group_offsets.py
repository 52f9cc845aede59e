"""Consume, process and produce in transactions: offsets take effect with the records, and late members are fenced."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from clients.kafka_python import read as read_with_kafka_python
from clients.librdkafka import produce, read
from cluster import Broker
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPlace
from kafka.structs import OffsetAndMetadata
from topics import CreateTopic, topic_creator
from waiting import wait_until

PARTITIONS = 2
RECORDS = 20
PER_TRANSACTION = 4
SECONDS = 30
COORDINATOR_STARTS = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def source(bootstrap: str, create_topic: CreateTopic) -> str:
    """Returns a topic with records."""
    topic = create_topic(partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for partition in range(PARTITIONS):
        values = [f"{partition}-{number}".encode() for number in range(RECORDS // PARTITIONS)]
        produce(producer, topic, values, partition=partition)
    return topic


@pytest.fixture
def make_consumer(bootstrap: str, group: str) -> Iterator[Callable[..., Consumer]]:
    """Yields a function that makes consumers of librdkafka, by default in the test's group."""
    made: list[Consumer] = []

    def make(**settings: object) -> Consumer:
        common = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 10_000,
        }
        made.append(Consumer(common | settings))
        return made[-1]

    yield make
    for consumer in made:
        with suppress(RuntimeError):  # a test has closed it
            consumer.close()


def transactional_producer(bootstrap: str, **settings: object) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"id-{uuid.uuid4().hex[:8]}", "linger.ms": 0} | settings
    )
    producer.init_transactions(SECONDS)
    return producer


def committed(consumer: Consumer, topic: str) -> list[int]:
    places = [Place(topic, partition) for partition in range(PARTITIONS)]
    return [place.offset for place in consumer.committed(places, SECONDS)]


def expected() -> list[bytes]:
    return sorted(
        f"{partition}-{number}".encode() for partition in range(PARTITIONS) for number in range(RECORDS // PARTITIONS)
    )


def process_with_librdkafka(bootstrap: str, source: str, target: str, group: str) -> None:
    """Copies all records in transactions. Each other transaction is aborted, and done again."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    producer = transactional_producer(bootstrap)
    done = tries = 0
    while done < RECORDS:
        messages = read(consumer, PER_TRANSACTION, SECONDS)
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS
        )
        tries += 1
        if tries % 2:
            producer.abort_transaction(SECONDS)
            for place in consumer.committed(consumer.assignment(), SECONDS):
                place.offset = max(place.offset, 0)
                consumer.seek(place)
        else:
            producer.commit_transaction(SECONDS)
            done += len(messages)
    consumer.close()


def process_with_kafka_python(bootstrap: str, source: str, target: str, group: str) -> None:
    """Copies all records in transactions. Each other transaction is aborted, and done again."""
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=PER_TRANSACTION,
    )
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"id-{group}")
    producer.init_transactions()
    done = tries = 0
    while done < RECORDS:
        records = read_with_kafka_python(consumer, 1, SECONDS)
        producer.begin_transaction()
        for record in records:
            producer.send(target, record.value, partition=record.partition)
        offsets = {place: OffsetAndMetadata(consumer.position(place), "", -1) for place in consumer.assignment()}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        tries += 1
        if tries % 2:
            producer.abort_transaction()
            for place in consumer.assignment():
                consumer.seek(place, consumer.committed(place) or 0)
        else:
            producer.commit_transaction()
            done += len(records)
    producer.close()
    consumer.close(autocommit=False)


@pytest.mark.parametrize("process", [process_with_librdkafka, process_with_kafka_python])
def test_each_record_is_processed_once(
    process: Callable[[str, str, str, str], None],
    bootstrap: str,
    create_topic: CreateTopic,
    source: str,
    group: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    target = create_topic(partitions=PARTITIONS)
    process(bootstrap, source, target, group)
    reader = make_consumer(**{"group.id": f"{group}-reader", "isolation.level": "read_committed"})
    reader.assign([Place(target, partition, 0) for partition in range(PARTITIONS)])
    assert sorted(message.value() for message in read(reader, RECORDS)) == expected()
    assert not reader.consume(1, 0.5), "no record is there twice"
    assert committed(make_consumer(), source) == [RECORDS // PARTITIONS] * PARTITIONS


def test_a_member_of_an_older_generation_is_fenced(
    bootstrap: str, source: str, make_consumer: Callable[..., Consumer]
) -> None:
    zombie = make_consumer()
    zombie.subscribe([source])
    read(zombie, 1)
    known = zombie.consumer_group_metadata()
    other = make_consumer()
    other.subscribe([source])
    wait_until(
        lambda: (zombie.poll(0.1), other.poll(0.1)) and len(zombie.assignment()) == len(other.assignment()) == 1, 30
    )

    producer = transactional_producer(bootstrap)
    producer.begin_transaction()
    with pytest.raises(KafkaException) as caught:
        producer.send_offsets_to_transaction([Place(source, 0, 1)], known, SECONDS)
    error: KafkaError = caught.value.args[0]
    assert error.code() == KafkaError.ILLEGAL_GENERATION and error.txn_requires_abort()
    producer.abort_transaction(SECONDS)
    producer.begin_transaction()
    place = Place(source, 0, 2)
    producer.send_offsets_to_transaction([place], zombie.consumer_group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)
    assert committed(other, source)[0] == 2


@pytest.mark.parametrize(("is_commit", "offset"), [(True, 7), (False, 3)])
def test_a_reader_of_committed_offsets_waits_for_the_end_of_the_transaction(
    bootstrap: str, source: str, make_consumer: Callable[..., Consumer], is_commit: bool, offset: int
) -> None:
    consumer = make_consumer()
    place = Place(source, 0, 3)
    consumer.commit(offsets=[place], asynchronous=False)
    producer = transactional_producer(bootstrap)
    producer.begin_transaction()
    place.offset = 7
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), SECONDS)
    found: list[Any] = []
    reader = make_consumer(**{"isolation.level": "read_committed"})
    reading = threading.Thread(target=lambda: found.append(committed(reader, source)[0]))
    reading.start()
    reading.join(0.5)
    assert not found, "the offset is not stable"
    if is_commit:
        producer.commit_transaction(SECONDS)
    else:
        producer.abort_transaction(SECONDS)
    reading.join(SECONDS)
    assert found == [offset]


def test_offsets_of_an_open_transaction_are_not_visible(
    bootstrap: str, source: str, group: str, make_consumer: Callable[..., Consumer]
) -> None:
    producer = transactional_producer(bootstrap)
    producer.begin_transaction()
    place = Place(source, 0, 7)
    producer.send_offsets_to_transaction([place], make_consumer().consumer_group_metadata(), SECONDS)
    reader = make_consumer(**{"isolation.level": "read_uncommitted"})
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group)
    assert committed(reader, source)[0] < 0
    producer.commit_transaction(SECONDS)
    # The commit is decided, and its marker may follow. Only a reader of stable offsets waits for the marker.
    stable_reader = make_consumer(**{"isolation.level": "read_committed"})
    for each in (stable_reader, reader):
        assert committed(each, source)[0] == 7
    assert consumer.committed(KafkaPythonPlace(source, 0)) == 7
    consumer.close(autocommit=False)


def _commits(consumer: Consumer, topic: str) -> bool:
    """Commits the offset 3 of all partitions, and returns whether the group has a coordinator already."""
    try:
        consumer.commit(offsets=[Place(topic, partition, 3) for partition in range(PARTITIONS)], asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in COORDINATOR_STARTS:
            raise
        return False
    return True


def test_pending_offsets_survive_a_kill(broker: Broker, group: str) -> None:
    topic = topic_creator(broker.bootstrap, "survivors")(partitions=PARTITIONS)
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 2, "reconnect.backoff.max.ms": 200}
    consumer = Consumer(settings | {"group.id": group, "enable.auto.commit": False})
    wait_until(partial(_commits, consumer, topic), SECONDS, "the new broker has a coordinator of groups")
    producers = [transactional_producer(broker.bootstrap, **settings) for _ in range(PARTITIONS)]
    for partition, producer in enumerate(producers):
        producer.begin_transaction()
        place = Place(topic, partition, 7)
        producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), SECONDS)
    broker.kill()
    broker.start()
    producers[0].commit_transaction(SECONDS)
    producers[1].abort_transaction(SECONDS)
    assert committed(consumer, topic) == [7, 3]
    consumer.close()
