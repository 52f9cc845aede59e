"""How large a partition becomes while its followers are away, and what retention leaves of it afterwards."""

import os

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from freezing import frozen
from spu_cluster import SeparateCluster
from waiting import wait_until

MIB = 1024 * 1024
SEGMENT_BYTES = MIB
RETENTION_BYTES = 4 * MIB
OPEN_SEGMENT_BYTES_MAX = SEGMENT_BYTES + 64 * MIB
BATCH_BYTES_MAX = MIB
TOPIC = "orders"


def produce(bootstrap, mib):
    """Sends records with acks=1, and returns the errors of those that were refused."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "retries": 0, "linger.ms": 20})
    errors = []
    value = os.urandom(64 * 1024)
    for number in range(mib * 16):
        producer.produce(TOPIC, value, on_delivery=lambda error, _: error is not None and errors.append(error.code()))
        if number % 64 == 63:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0
    return errors


def test_a_partition_stays_within_the_documented_size_without_its_followers(tmp_path):
    cluster = SeparateCluster(tmp_path, spus=2, settings={"log.retention.check.interval.ms": "200"})
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        configs = {"min.insync.replicas": 2, "segment.bytes": SEGMENT_BYTES, "retention.bytes": RETENTION_BYTES}
        admin.create_topics([NewTopic(TOPIC, 1, 2, config=configs)])[TOPIC].result(20)
        leader = admin.list_topics(TOPIC, 20).topics[TOPIC].partitions[0].leader

        def size():
            return cluster.log_bytes(leader, TOPIC, 0)

        with frozen([cluster.spu_pid(3 - leader)]):
            errors = produce(cluster.bootstrap, 90)
            assert set(errors) == {KafkaError.NOT_ENOUGH_REPLICAS}
            assert size() <= SEGMENT_BYTES + OPEN_SEGMENT_BYTES_MAX + BATCH_BYTES_MAX
        # As long as the follower is behind, new records join the large segment, which only newer ones let go.
        limit = RETENTION_BYTES + SEGMENT_BYTES + BATCH_BYTES_MAX
        wait_until(lambda: not produce(cluster.bootstrap, 1) and size() <= limit, 60, "retention has caught up")
    finally:
        cluster.kill()
