"""Fixtures that make kafka-python clients."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition


@pytest.fixture
def make_producer(bootstrap: str) -> Iterator[Callable[..., KafkaProducer]]:
    """Yields a function that makes producers, which are closed when the test ends."""
    producers = []

    def make(**settings: Any) -> KafkaProducer:
        producers.append(KafkaProducer(bootstrap_servers=bootstrap, **settings))
        return producers[-1]

    yield make
    for producer in producers:
        producer.close(timeout=5)


@pytest.fixture
def make_consumer(bootstrap: str) -> Iterator[Callable[..., KafkaConsumer]]:
    """Yields a function that makes consumers of assigned partitions, from their beginning and without a group."""
    consumers = []

    def make(topic: str, partitions: int = 1, **settings: Any) -> KafkaConsumer:
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | settings
        consumers.append(KafkaConsumer(bootstrap_servers=bootstrap, **settings))
        consumers[-1].assign([TopicPartition(topic, partition) for partition in range(partitions)])
        return consumers[-1]

    yield make
    for consumer in consumers:
        consumer.close(autocommit=False)


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()
