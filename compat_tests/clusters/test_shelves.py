"""A partition larger than its replicas keep: other SPUs store its old segments, and serve reads of them."""

import os
import shutil

import pytest
from clients.librdkafka import read
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from spu_cluster import SeparateCluster, cli, objects, wait_until_online
from waiting import wait_until

MEBIBYTE = 1 << 20
RECORDS = 1000
PADDING = os.urandom(24 * 1024)
CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": str(MEBIBYTE),
    "local.retention.bytes": str(2 * MEBIBYTE),
}
LOCAL_BYTES_MAX = 5 * MEBIBYTE
"""The size of a replica: two sealed segments, the open one, and what has arrived since the last check."""


@pytest.fixture
def cluster(tmp_path):
    made = SeparateCluster(
        tmp_path,
        spus=5,
        settings={"log.retention.check.interval.ms": "300"},
        sc_options=("--replace-after", "3", "--reconciliation", "1"),
    )
    try:
        made.start()
        yield made
    finally:
        made.kill()


def create(cluster, topic):
    configs = [word for name, value in CONFIGS.items() for word in ("--config", f"{name}={value}")]
    words = ("--partitions", "1", "--replication-factor", "2", "--wait", "20", *configs)
    status, output = cli(cluster.sc, "topic", "create", topic, *words)
    assert status == 0, output


def value_of(number):
    return b"%d " % number + PADDING


def fill(cluster, topic, numbers):
    failures = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in numbers:
        producer.produce(topic, value_of(number), on_delivery=lambda error, _: error and failures.append(error))
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def partition_of(cluster, topic):
    (found,) = objects(cluster.sc, "partition", topic)
    return found


def wait_until_shelved(cluster, topic):
    """Waits until shelves hold the old segments; another SPU takes the place of one that is offline."""

    def are_small():
        partition = partition_of(cluster, topic)
        live = set(partition["lrs"])
        return live == set(partition["replicas"]) and all(
            cluster.log_bytes(spu, topic, 0) <= LOCAL_BYTES_MAX for spu in live
        )

    wait_until(are_small, 60, "the replicas have deleted their old segments")


def assert_all_there(cluster, topic, count):
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(settings | {"reconnect.backoff.max.ms": 200})
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    assert (low, high) == (0, count)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values = [message.value() for message in read(consumer, count, seconds=90)]
    consumer.close()
    assert values == list(map(value_of, range(count)))


@pytest.mark.timeout(300)
def test_old_segments_are_read_from_other_spus_whichever_spu_dies(cluster, name, tmp_path):
    create(cluster, name)
    fill(cluster, name, range(RECORDS))
    replicas = set(partition_of(cluster, name)["replicas"])
    wait_until_shelved(cluster, name)
    assert_all_there(cluster, name, RECORDS)

    def shelves():
        return partition_of(cluster, name)["spec"]["shelves"]

    copy_sets = {tuple(each["stores"]) for each in shelves()}
    assert len(copy_sets) > 1, "the segments of one partition have different stores"
    assert not any(replicas & set(each) for each in copy_sets)

    # Lose one store that is killed, and one whose disk is lost for good.
    stores = sorted(set(cluster.ids) - replicas)
    killed, lost = stores[:2]
    cluster.kill_spu(killed)
    assert_all_there(cluster, name, RECORDS)
    cluster.kill_node(lost)
    shutil.rmtree(tmp_path / f"spu-{lost}")
    wait_until(
        lambda: not any(lost in (*each["stores"], *each.get("filling", ())) for each in shelves()),
        60,
        "the lost store is replaced",
    )
    wait_until(lambda: not any("filling" in each for each in shelves()), 60, "the others are filled")
    assert_all_there(cluster, name, RECORDS)

    # Kill the leader while more records arrive.
    leader = partition_of(cluster, name)["leader"]
    cluster.kill_node(leader)
    fill(cluster, name, range(RECORDS, RECORDS + 200))
    cluster.start_node(leader)
    wait_until_online(cluster.sc, set(cluster.ids) - {lost})
    wait_until_shelved(cluster, name)
    assert_all_there(cluster, name, RECORDS + 200)
