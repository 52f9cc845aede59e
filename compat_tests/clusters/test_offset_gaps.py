"""What consumers see of the offset that a new leader takes after the previous one was lost."""

import json
import os
import signal
from contextlib import closing

import kafka
import pytest
from cluster import tailrace_output
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka.admin import NewTopic
from spu_cluster import ManagedCluster

TOPIC = "orders"
QUICKLY = {"reconnect.backoff.max.ms": 200, "topic.metadata.refresh.interval.ms": 1000}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory):
    """Yields the address of a cluster with three records before the loss of their leader, and two after it."""
    cluster = ManagedCluster(tmp_path_factory.mktemp("lost-leader"))
    try:
        cluster.start()
        with closing(kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 3)])
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0} | QUICKLY)
        leader = producer.list_topics(TOPIC, 20).topics[TOPIC].partitions[0].leader
        pid = cluster.spu_pid(leader)
        produce(producer, 3)
        os.kill(pid, signal.SIGKILL)  # at once, so that its followers hardly know that the records are committed
        produce(producer, 2)
        yield cluster.bootstrap
    finally:
        cluster.kill()


def produce(producer, count):
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def read_with_librdkafka(bootstrap, group):
    """Returns the offsets of all records, and commits where the next record will be."""
    settings = {"group.id": group, "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap} | settings | QUICKLY)
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    offsets = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        offsets.append(message.offset())
    consumer.commit(offsets=consumer.position([TopicPartition(TOPIC, 0)]), asynchronous=False)
    consumer.close()
    return offsets


def read_with_kafka_python(bootstrap, group):
    """Returns the offsets of all records, and commits where the next record will be."""
    partition = kafka.TopicPartition(TOPIC, 0)
    settings = {"bootstrap_servers": bootstrap, "group_id": group, "enable_auto_commit": False}
    with closing(kafka.KafkaConsumer(**settings)) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        offsets = []
        while consumer.position(partition) < end:
            for records in consumer.poll(1000).values():
                offsets += [record.offset for record in records]
        consumer.commit()
    return offsets


@pytest.mark.parametrize("read", [read_with_librdkafka, read_with_kafka_python])
def test_consumers_skip_the_offset_that_a_new_leader_takes_and_have_no_lag(bootstrap, read):
    group = read.__name__
    offsets = read(bootstrap, group)
    assert offsets in ([0, 1, 2, 4, 5], [0, 1, 2, 3, 4]), "there is no gap if the new leader knew all committed records"
    (described,) = json.loads(tailrace_output("group", "describe", group, "--bootstrap", bootstrap))
    (row,) = described["partitions"]
    assert (row["committed"], row["logEnd"], row["lag"]) == (offsets[-1] + 1, offsets[-1] + 1, 0)
