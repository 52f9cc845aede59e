"""librdkafka's transactional producer: on one broker, on three, and while its coordinator is killed."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from node_cluster import Watcher

from .transaction_readers import coordinator, values

PARTITIONS = range(3)
SECONDS = 30


def _producer(bootstrap: str, transactional_id: str | None = None) -> Producer:
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id or f"id-{uuid.uuid4().hex}",
        "linger.ms": 0,
        "log_level": 2,
        "reconnect.backoff.max.ms": 200,
    }
    producer = Producer(settings)
    producer.init_transactions(SECONDS)
    return producer


def _transaction(producer: Producer, topic: str, name: str, *, commit: bool) -> list[str]:
    """Writes a record to each partition, and returns them."""
    producer.begin_transaction()
    written = [f"{name}-{partition}" for partition in PARTITIONS]
    for partition in PARTITIONS:
        producer.produce(topic, written[partition], partition=partition)
    if commit:
        producer.commit_transaction(SECONDS)
    else:
        assert producer.flush(SECONDS) == 0
        producer.abort_transaction(SECONDS)
    return written


def test_readers_of_committed_records_get_whole_transactions(bootstrap: str, create_topic: Callable[..., str]) -> None:
    topic, producer = create_topic(partitions=len(PARTITIONS)), _producer(bootstrap)
    committed, aborted = [], []
    for number in range(4):
        commit = number % 2 == 0
        (committed if commit else aborted).extend(_transaction(producer, topic, str(number), commit=commit))
    assert sorted(values(bootstrap, topic, PARTITIONS)) == sorted(committed)
    assert sorted(values(bootstrap, topic, PARTITIONS, "read_uncommitted")) == sorted(committed + aborted)


def test_readers_of_committed_records_wait_for_an_open_transaction(
    bootstrap: str, create_topic: Callable[..., str]
) -> None:
    topic, producer, other = create_topic(), _producer(bootstrap), Producer({"bootstrap.servers": bootstrap})
    producer.begin_transaction()
    producer.produce(topic, "open")
    assert producer.flush(SECONDS) == 0
    other.produce(topic, "plain")
    assert other.flush(SECONDS) == 0
    assert values(bootstrap, topic, [0]) == []
    producer.commit_transaction(SECONDS)
    assert values(bootstrap, topic, [0]) == ["open", "plain"]


def test_a_newer_producer_fences_the_older_one(bootstrap: str, create_topic: Callable[..., str]) -> None:
    topic, name = create_topic(), f"id-{uuid.uuid4().hex}"
    older = _producer(bootstrap, name)
    older.begin_transaction()
    older.produce(topic, "older")
    assert older.flush(SECONDS) == 0
    newer = _producer(bootstrap, name)
    with pytest.raises(KafkaException) as caught:
        older.commit_transaction(SECONDS)
    assert caught.value.args[0].fatal()
    newer.begin_transaction()
    newer.produce(topic, "newer")
    newer.commit_transaction(SECONDS)
    assert values(bootstrap, topic, [0]) == ["newer"]


def test_offsets_are_committed_with_the_records_that_were_made_of_them(
    bootstrap: str, create_topic: Callable[..., str]
) -> None:
    source, target, group = create_topic(), create_topic(), f"group-{uuid.uuid4().hex}"
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(4):
        plain.produce(source, str(number))
    assert plain.flush(SECONDS) == 0
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer, producer = Consumer(settings), _producer(bootstrap)
    consumer.subscribe([source])
    taken: list[str] = []
    while len(taken) < 4:
        taken += [message.value().decode() for message in consumer.consume(4 - len(taken), SECONDS)]

    def process(count: int, *, commit: bool) -> None:
        producer.begin_transaction()
        for value in taken[:count]:
            producer.produce(target, f"made of {value}")
        offsets = [TopicPartition(source, 0, count)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)

    def committed() -> int:
        (found,) = consumer.committed([TopicPartition(source, 0)], SECONDS)
        return int(found.offset)

    process(4, commit=False)
    assert committed() < 0
    process(2, commit=True)
    assert committed() == 2
    assert values(bootstrap, target, [0]) == ["made of 0", "made of 1"]
    consumer.close()


def test_transactions_over_three_nodes(nodes) -> None:
    topic = f"three-{uuid.uuid4().hex}"
    Watcher(nodes.bootstrap).create_topic(topic, len(PARTITIONS), configs={"min.insync.replicas": 2})
    producer = _producer(nodes.bootstrap)
    committed = []
    for number in range(6):
        written = _transaction(producer, topic, str(number), commit=number % 3 != 2)
        committed += written if number % 3 != 2 else []
    assert sorted(values(nodes.bootstrap, topic, PARTITIONS)) == sorted(committed)


@pytest.mark.timeout(180)
def test_a_coordinator_is_killed_during_transactions(nodes) -> None:
    """The first transaction is open at the kill, and the second one was just committed: its markers may be missing."""
    topic, watcher = f"killed-{uuid.uuid4().hex}", Watcher(nodes.bootstrap)
    watcher.create_topic(topic, len(PARTITIONS), configs={"min.insync.replicas": 2})
    first, second = f"id-{uuid.uuid4().hex}", f"id-{uuid.uuid4().hex}"
    producers = [_producer(nodes.bootstrap, first), _producer(nodes.bootstrap, second)]
    node = coordinator(watcher, first)
    committed = [*_transaction(producers[0], topic, "before", commit=True)]
    producers[0].begin_transaction()
    for partition in PARTITIONS:
        producers[0].produce(topic, f"open-{partition}", partition=partition)
    assert producers[0].flush(SECONDS) == 0
    committed += _transaction(producers[1], topic, "other", commit=True)
    nodes.kill_node(node)
    producers[0].commit_transaction(SECONDS)
    committed += [f"open-{partition}" for partition in PARTITIONS]
    for number in range(3):
        committed += _transaction(producers[0], topic, f"after-{number}", commit=True)
        _transaction(producers[1], topic, f"aborted-{number}", commit=False)
    assert sorted(values(nodes.bootstrap, topic, PARTITIONS)) == sorted(committed)
