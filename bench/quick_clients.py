"""Producers and consumers of librdkafka with queues that are large enough for the work, and what the work shares."""

import json
import os
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

SETTINGS: dict[str, str] = json.loads(os.environ.get("BENCH_CLIENT_SETTINGS", "{}"))
"""Settings of librdkafka for all clients: encryption and logins."""


def values(size: int, count: int = 997) -> list[bytes]:
    """Returns different payloads, made without chance so that every run sends the same."""
    return [(b"%08d" % (number * 7919)) * (size // 8) + b"x" * (size % 8) for number in range(count)]


def percentile(samples: list[float], share: float) -> float:
    return sorted(samples)[min(len(samples) - 1, int(share * len(samples)))]


def make_producer(bootstrap: str, **settings: Any) -> Producer:
    queue = {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 2_000_000}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap, "log_level": 2} | SETTINGS | queue | named)


def make_consumer(bootstrap: str, topic: str, offset: int, **settings: Any) -> Consumer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    unused = {"group.id": "unused", "enable.auto.commit": False}
    # If this queue filled up, librdkafka would pause for a second, and hide what the broker does.
    queue = {"queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_000_000}
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 2} | SETTINGS | unused | queue | named)
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, offset) for partition in partitions])
    return consumer


def stored(bootstrap: str, topic: str) -> int:
    """Returns how many records the topic has, so that lost records do not look like speed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 2} | SETTINGS)
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    total = 0
    for partition in partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        total += high - low
    consumer.close()
    return total
