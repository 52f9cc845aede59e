"""Clients read a log as recovery leaves it: with a hole of offsets without records, and a bridge to a new epoch.

They skip both without an error, and do not wait for records that do not exist.
"""

import asyncio
from contextlib import closing

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioKafkaPartition
from brokers import is_apache_kafka
from clients.java import run_tool
from clients.kafka_python import read as read_with_kafka_python
from clients.librdkafka import produce, read
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition
from recovered_log import BEFORE, END, OFFSETS, RECOVERED, make_recovered
from topics import topic_creator
from waiting import wait_until


@pytest.fixture
def recovered(broker, request):
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka has another storage format")
    topic = topic_creator(broker.bootstrap, request.node.name)()
    make_recovered(broker, topic)
    return topic


@pytest.mark.parametrize("start", [0, 10, 28])
def test_librdkafka_skips_them(broker, recovered, start):
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.partition.eof": True}
    consumer = Consumer(settings | {"enable.auto.commit": False, "auto.offset.reset": "error"})
    with closing(consumer):
        consumer.assign([TopicPartition(recovered, 0, start)])
        found = []
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append((message.offset(), message.value()))
        expected = list(zip(OFFSETS, BEFORE + RECOVERED, strict=True))
        assert found == [each for each in expected if each[0] >= start]
        assert message is not None, "the client waits for a record that does not exist"
        assert (message.error().code(), message.offset()) == (KafkaError._PARTITION_EOF, END)
        assert consumer.get_watermark_offsets(TopicPartition(recovered, 0), timeout=20) == (0, END)
        produce(Producer({"bootstrap.servers": broker.bootstrap}), recovered, [b"new"], partition=0)
        (message,) = read(consumer, 1)
        assert (message.offset(), message.value()) == (END, b"new")


@pytest.mark.parametrize("start", [0, 24])
def test_kafka_python_skips_them(broker, recovered, start):
    partition = KafkaPythonPartition(recovered, 0)
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, start)
        expected = [offset for offset in OFFSETS if offset >= start]
        assert [record.offset for record in read_with_kafka_python(consumer, len(expected))] == expected

        def is_at_the_end() -> bool:
            assert consumer.poll(timeout_ms=100) == {}
            return consumer.position(partition) == END

        wait_until(is_at_the_end, 20, "the consumer is at the end of the log")
        produce(Producer({"bootstrap.servers": broker.bootstrap}), recovered, [b"new"], partition=0)
        assert [record.offset for record in read_with_kafka_python(consumer, 1)] == [END]


def test_aiokafka_skips_them(broker, recovered):
    async def offsets() -> list[int]:
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False) as consumer:
            partition = AioKafkaPartition(recovered, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            found = [(await consumer.getone()).offset for _ in OFFSETS]
            while await consumer.position(partition) < END:
                assert await consumer.getmany(timeout_ms=100) == {}
            produce(Producer({"bootstrap.servers": broker.bootstrap}), recovered, [b"new"], partition=0)
            return [*found, (await consumer.getone()).offset]

    assert asyncio.run(asyncio.wait_for(offsets(), 40)) == [*OFFSETS, END]


def test_the_java_client_skips_them(broker, recovered):
    produce(Producer({"bootstrap.servers": broker.bootstrap}), recovered, [b"new"], partition=0)
    for offset, expected in (
        ("earliest", [*BEFORE, *RECOVERED, b"new"]),
        ("7", [*RECOVERED, b"new"]),
        ("28", [b"new"]),
    ):
        printed = run_tool(
            *("console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", recovered, "--partition", "0"),
            *("--offset", offset, "--max-messages", str(len(expected)), "--timeout-ms", "20000"),
        )
        assert printed.encode().splitlines() == expected
