"""A user's program that runs a stock client: `python stock_client.py LIBRARY VERB …`.

    brokers BOOTSTRAP                          print the brokers' addresses, as clients see them
    create BOOTSTRAP TOPIC PARTITIONS
    produce BOOTSTRAP TOPIC PARTITIONS FIRST COUNT    send numbers from FIRST on to the partitions in turn, acks=all
    consume BOOTSTRAP TOPIC PARTITIONS COUNT          read everything from the beginning

It prints JSON.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

REQUEST_SECONDS_MAX = 40


def with_kafka_python(verb: str, bootstrap: str, topic: str = "", *numbers: int) -> Any:
    from clients.kafka_python import read
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic

    match verb:
        case "brokers":
            cluster = KafkaAdminClient(bootstrap_servers=bootstrap).describe_cluster()
            return {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]}
        case "create":
            KafkaAdminClient(bootstrap_servers=bootstrap).create_topics([NewTopic(topic, numbers[0], 1)])
        case "produce":
            producer = KafkaProducer(
                bootstrap_servers=bootstrap, acks="all", delivery_timeout_ms=REQUEST_SECONDS_MAX * 1000
            )
            futures = [producer.send(topic, value, partition=partition) for partition, value in _values(*numbers)]
            return [future.get(REQUEST_SECONDS_MAX).offset for future in futures]
        case "consume":
            partitions, count = numbers
            consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
            consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
            return _by_partition((r.partition, r.value) for r in read(consumer, count, REQUEST_SECONDS_MAX))
    return None


def with_librdkafka(verb: str, bootstrap: str, topic: str = "", *numbers: int) -> Any:
    from clients.librdkafka import read
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    where: dict[str, Any] = {"bootstrap.servers": bootstrap}
    match verb:
        case "brokers":
            brokers = AdminClient(where).list_topics(timeout=REQUEST_SECONDS_MAX).brokers
            return {number: f"{broker.host}:{broker.port}" for number, broker in brokers.items()}
        case "create":
            admin = AdminClient(where)  # it has to live as long as its request
            admin.create_topics([NewTopic(topic, numbers[0], 1)])[topic].result(REQUEST_SECONDS_MAX)
        case "produce":
            offsets: list[int | None] = []
            producer = Producer(where | {"acks": "all", "delivery.timeout.ms": REQUEST_SECONDS_MAX * 1000})
            for partition, value in _values(*numbers):
                producer.produce(
                    topic,
                    value,
                    partition=partition,
                    on_delivery=lambda error, r: offsets.append(-1 if error else r.offset()),
                )
            producer.flush(REQUEST_SECONDS_MAX)
            return offsets
        case "consume":
            partitions, count = numbers
            consumer = Consumer(where | {"group.id": "not used", "enable.auto.commit": False})
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
            return _by_partition((m.partition(), m.value()) for m in read(consumer, count, REQUEST_SECONDS_MAX))
    return None


def _values(partitions: int, first: int, count: int) -> Iterator[tuple[int, bytes]]:
    for number in range(first, first + count):
        yield number % partitions, str(number).encode()


def _by_partition(records: Iterable[tuple[Any, Any]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for partition, value in records:
        found.setdefault(partition, []).append(int(value))
    return found


if __name__ == "__main__":
    library, verb, bootstrap, *more = sys.argv[1:]
    use = {"kafka-python": with_kafka_python, "librdkafka": with_librdkafka}[library]
    print(json.dumps(use(verb, bootstrap, (more or [""])[0], *map(int, more[1:]))))
