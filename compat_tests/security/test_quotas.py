"""Quotas with stock clients: how they learn that they are throttled, and how Kafka's tools set quotas.

Each test has client ids of its own, so that all tests share one broker.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from clients.java import run_tool
from cluster import tailrace_output
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

THROTTLING_QUOTA_EXCEEDED = 89
RATE = 100_000
BURST = bytes(RATE)
BURSTS = 12
"""How many batches of a second's worth make a client wait: the window has ten seconds, and it waits for two."""


@contextmanager
def limited(bootstrap: str, **limits: float) -> Iterator[str]:
    """Yields a new client id with these quotas."""
    client_id = f"limited-{uuid4().hex[:8]}"
    words = [f"{name}={value}" for name, value in limits.items()]
    tailrace_output("quota", "set", "--client-id", client_id, *words, "--bootstrap", bootstrap)
    yield client_id
    tailrace_output("quota", "delete", "--client-id", client_id, "--bootstrap", bootstrap)


def test_a_producer_of_librdkafka_is_told_to_wait_and_waits(bootstrap: str, topic: str) -> None:
    seconds: list[float] = []
    statistics: list[dict[str, Any]] = []
    with limited(bootstrap, producer_byte_rate=RATE) as client_id:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "linger.ms": 0,
                "throttle_cb": lambda event: seconds.append(event.throttle_time),
                "stats_cb": lambda text: statistics.append(json.loads(text)),
                "statistics.interval.ms": 100,
            }
        )
        began = time.monotonic()
        for _ in range(BURSTS):
            producer.produce(topic, BURST)
            assert producer.flush(30) == 0
        assert any(each > 0 for each in seconds)
        producer.produce(topic, b"after the wait")
        assert producer.flush(30) == 0
        assert time.monotonic() - began >= max(seconds)
        deadline = time.monotonic() + 10
        while not any(each["throttle"]["max"] > 0 for one in statistics for each in one["brokers"].values()):
            assert time.monotonic() < deadline, "the statistics show no throttle time"
            producer.poll(0.1)


def test_a_consumer_of_librdkafka_gets_all_records_in_the_end(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for _ in range(BURSTS):
        producer.produce(topic, BURST)
        assert producer.flush(30) == 0
    seconds: list[float] = []
    with limited(bootstrap, consumer_byte_rate=RATE) as client_id:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "group.id": "unused",
                "throttle_cb": lambda event: seconds.append(event.throttle_time),
                "fetch.message.max.bytes": 110_000,
            }
        )
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        read = 0
        deadline = time.monotonic() + 30
        while read < BURSTS:
            assert time.monotonic() < deadline
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None
                assert message.value() == BURST
                read += 1
        consumer.close()
    assert any(each > 0 for each in seconds)


def test_the_metrics_of_kafka_python_show_throttle_times(bootstrap: str, topic: str) -> None:
    with limited(bootstrap, producer_byte_rate=RATE, consumer_byte_rate=RATE) as client_id:
        producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, max_request_size=200_000)
        for _ in range(BURSTS):
            producer.send(topic, BURST).get(30)
        assert producer.metrics()["producer-metrics"]["throttle-time-max"] > 0
        producer.close()
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            client_id=client_id,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=110_000,
            consumer_timeout_ms=30_000,
        )
        assert [next(consumer).value for _ in range(BURSTS)] == [BURST] * BURSTS
        assert consumer.metrics()["consumer-metrics"]["throttle-time-max"] > 0
        consumer.close()


def test_a_client_without_a_quota_is_not_throttled_beside_one_with_a_quota(bootstrap: str, topic: str) -> None:
    seconds: list[float] = []
    with limited(bootstrap, producer_byte_rate=1, request_percentage=0.01):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "free",
                "throttle_cb": lambda event: seconds.append(event.throttle_time),
            }
        )
        for _ in range(BURSTS):
            producer.produce(topic, BURST)
            assert producer.flush(30) == 0
        producer.poll(0.1)
    assert not any(seconds)


def test_an_admin_client_learns_that_it_has_changed_too_much(bootstrap: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kafka")  # other tests silence this library
    with limited(bootstrap, controller_mutation_rate=1) as client_id:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id=client_id)
        name = f"many-{uuid4().hex[:8]}"
        wanted = {f"{name}-{number}": {"num_partitions": 8, "replication_factor": 1} for number in range(3)}
        response = admin.create_topics(wanted, raise_errors=False)
        admin.close()
        # The window allows 11 changes, so that the second topic goes into debt.
        assert sorted(each["error_code"] for each in response["topics"]) == [0, 0, THROTTLING_QUOTA_EXCEEDED]
        assert "CreateTopicsResponse throttled by broker" in caplog.text


def test_kafkas_tool_and_the_command_line_see_the_same_quotas(bootstrap: str) -> None:
    user = f"user with spaces {uuid4().hex[:8]}"
    entity = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-default")
    change = ("--alter", *entity, "--add-config", "producer_byte_rate=1000,request_percentage=12.5")
    assert "Completed updating config" in run_tool("configs", "--bootstrap-server", bootstrap, *change)
    listed = json.loads(tailrace_output("quota", "list", "--user", user, "--bootstrap", bootstrap))
    assert listed == [
        {
            "entity": [
                {"type": "user", "name": user, "isDefault": False},
                {"type": "client-id", "name": None, "isDefault": True},
            ],
            "limits": {"producer_byte_rate": 1000, "request_percentage": 12.5},
        }
    ]
    words = ("--user", user, "--default-client-id", "producer_byte_rate")
    tailrace_output("quota", "delete", *words, "--bootstrap", bootstrap)
    described = run_tool("configs", "--bootstrap-server", bootstrap, "--describe", *entity)
    assert "request_percentage=12.5" in described
    assert "producer_byte_rate" not in described
