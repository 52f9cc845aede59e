"""Fixtures that make librdkafka clients."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient


@pytest.fixture
def make_producer(bootstrap: str) -> Callable[..., Producer]:
    """Returns a function that makes producers; settings have librdkafka's names with underscores for dots."""

    def make(**settings: Any) -> Producer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return Producer({"bootstrap.servers": bootstrap, "linger.ms": 0} | named)

    return make


@pytest.fixture
def make_consumer(bootstrap: str) -> Iterator[Callable[..., Consumer]]:
    """Yields a function that makes consumers of assigned partitions, from their beginning or from an offset."""
    consumers = []

    def make(topic: str, partitions: int = 1, offset: int = OFFSET_BEGINNING, **settings: Any) -> Consumer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        unused = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        consumer = Consumer({"bootstrap.servers": bootstrap} | unused | named)
        consumers.append(consumer)
        consumer.assign([TopicPartition(topic, partition, offset) for partition in range(partitions)])
        return consumer

    yield make
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})
