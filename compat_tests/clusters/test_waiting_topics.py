"""A topic that waits for SPUs: every command and client is told so, until it is corrected and everything works."""

import subprocess

import pytest
from cluster import run_to_end, tailrace
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer
from kafka.errors import InvalidReplicationFactorError
from spu_cluster import ManagedCluster, cli

NEEDS = "a replication factor of 3 needs 3 SPUs, and 1 is available"
NOT_IN_EFFECT = 4
QUICKLY = {"topic.metadata.refresh.interval.ms": 500}


def produce(bootstrap, topic):
    command = tailrace("produce", topic, "--bootstrap", bootstrap)
    done = subprocess.run(command, input="x\n", capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_commands_and_clients_give_the_same_reason_until_the_topic_is_corrected(tmp_path, name):
    cluster = ManagedCluster(tmp_path, spus=1)
    try:
        cluster.start()
        create = ("topic", "create", name, "--replication-factor", "3")
        status, said = cli(cluster.sc, *create)
        assert (status, NEEDS in said) == (NOT_IN_EFFECT, True), said
        status, said = cli(cluster.sc, *create)
        assert (status, NEEDS in said) == (1, True), said
        status, said = produce(cluster.bootstrap, name)
        assert status == 1
        assert said == (
            f"tailrace produce: topic {name} exists, but has no replicas yet: it waits for more SPUs, and "
            f"`tailrace topic describe {name}` says how many it needs\n"
        )
        status, said = run_to_end(tailrace("consume", name, "--bootstrap", cluster.bootstrap))
        assert (status, "it waits for more SPUs" in said) == (1, True), said

        # kafka-python reports the error at once. librdkafka keeps records until the topic is there.
        other = KafkaProducer(bootstrap_servers=cluster.bootstrap, max_block_ms=5000)
        with pytest.raises(InvalidReplicationFactorError):
            other.send(name, b"too early").get(10)
        producer = Producer({"bootstrap.servers": cluster.bootstrap} | QUICKLY)
        (described,) = producer.list_topics(name, timeout=10).topics.values()
        assert described.error.name() == "INVALID_REPLICATION_FACTOR"
        delivered = []
        producer.produce(name, b"kept", on_delivery=lambda error, record: delivered.append(error or record.value()))
        assert producer.flush(0.5) == 1

        status, said = cli(cluster.sc, "topic", "alter", name, "--replication-factor", "1")
        assert status == 0, said
        assert producer.flush(30) == 0
        assert delivered == [b"kept"]
        assert other.send(name, b"now").get(10).offset == 1
        other.close()
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe([name])
        assert [record.value() for record in consumer.consume(2, 30)] == [b"kept", b"now"]
        consumer.close()
        cluster.stop()
    finally:
        cluster.kill()
