"""Stock producers lose nothing if an SPU's storage is full, and continue when it has room again."""

import json

import pytest
from clients.librdkafka import read
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import KafkaStorageError
from spu_cluster import PATIENCE, SeparateCluster, cli, objects
from waiting import wait_until

SIZE_BYTES = 256 * 1024
VALUE_BYTES = 10_000
RECORDS_MAX = 60
"""The storage cannot hold this many records, neither before nor after it grows."""


@pytest.fixture
def small(tmp_path):
    """Yields a cluster of one SPU with little storage."""
    made = SeparateCluster(tmp_path, spus=1, sc_options=PATIENCE)
    try:
        made.start()
        resize(made, tmp_path, SIZE_BYTES)
        yield made
        made.stop()
    finally:
        made.kill()


def resize(cluster, directory, size_bytes):
    (spec,) = [{**each["spec"], "storage": {"size": size_bytes}} for each in objects(cluster.sc, "spu")]
    file = directory / "spu.json"
    file.write_text(json.dumps({"kind": "spu", "spec": spec}))
    status, output = cli(cluster.sc, "apply", "--file", str(file))
    assert status == 0, output


def reason(cluster):
    """Returns why the SPU, which is online, is not as it should be."""
    (spu,) = objects(cluster.sc, "spu")
    assert spu["status"]["resolution"] == "Online"
    return spu["status"].get("reason", "")


def create(admin, name):
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})


def fill(cluster, name):
    """Produces until the SPU refuses a record, and returns how many it accepted."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", retries=0, enable_idempotence=False)
    try:
        for count in range(RECORDS_MAX):
            try:
                producer.send(name, b"%06d" % count + bytes(VALUE_BYTES)).get(20)
            except KafkaStorageError:
                return count
    finally:
        producer.close()
    raise AssertionError(f"{RECORDS_MAX} records were accepted")


def consume(cluster, name, count, offset=OFFSET_BEGINNING):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, 0, offset)])
    try:
        return read(consumer, count)
    finally:
        consumer.close()


def delete_all_records(admin, name):
    admin.delete_records({PythonTopicPartition(name, 0): -1})


def test_producers_are_refused_until_there_is_room_and_lose_nothing(small, make_admin, name):
    admin = make_admin(small.bootstrap)
    create(admin, name)
    taken = fill(small, name)
    assert taken * VALUE_BYTES < SIZE_BYTES + 2 * VALUE_BYTES
    wait_until(lambda: "its storage is full" in reason(small), what="the SPU's status says why")
    status, output = cli(small.sc, "spu", "list")
    assert status == 0
    assert f"of {SIZE_BYTES} bytes" in output
    assert small.spu_errors(1).count("storage_limit_reached") == 1

    waiting = Producer({"bootstrap.servers": small.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    errors = []
    for number in range(5):
        waiting.produce(name, b"waiting %d" % number, on_delivery=lambda error, _: errors.append(error))
    assert waiting.flush(2) == 5, "the records wait, and the producer does not give them up"
    values = [message.value()[:6] for message in consume(small, name, taken)]
    assert values == [b"%06d" % number for number in range(taken)]

    delete_all_records(admin, name)
    assert waiting.flush(20) == 0
    assert errors == [None] * 5
    kept = [message.value() for message in consume(small, name, 5)]
    assert kept == [b"waiting %d" % number for number in range(5)]
    wait_until(lambda: reason(small) == "", what="the SPU's status shows that there is room")


def test_deleting_a_topic_or_a_larger_size_makes_room(small, make_admin, name, tmp_path):
    admin = make_admin(small.bootstrap)
    create(admin, name)
    create(admin, f"{name}-other")
    fill(small, name)
    assert fill(small, f"{name}-other") == 0
    admin.delete_topics([name])
    wait_until(lambda: fill(small, f"{name}-other") > 0, 20, "there is room")
    resize(small, tmp_path, 2 * SIZE_BYTES)
    wait_until(lambda: fill(small, f"{name}-other") > 0, 20, "there is more room")
