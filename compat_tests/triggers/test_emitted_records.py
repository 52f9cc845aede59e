"""What a trigger emits survives kill -9 of SPUs and of the replica: it is stored before a mark passes its event."""

import re
from pathlib import Path

import pytest
from cluster import Server, tailrace
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from node_cluster import Watcher
from spu_cluster import SeparateCluster
from waiting import wait_until

SHARDS, EACH = 4, 500
SECONDS_MAX = 90
READY = re.compile(r"^ready \S+ of trigger .*$", re.MULTILINE)
FUNCTION = """
import time
from tailrace.trigger import trigger

@trigger("orders", group="billing", seek_to="earliest", max_workers=2)
def bill(context, event):
    time.sleep(0.004)
    context.emit("invoices", f"{event.shard_id}/{event.offset}", key=event.key)
"""
TIMES = ("--session-timeout", "2s", "--heartbeat-interval", "400ms", "--commit-interval", "300ms")


class Invoices:
    """Reads what the trigger has emitted, with a stock client."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition("invoices", shard, 0) for shard in range(SHARDS)])
        self.values: list[str] = []

    def wait_for(self, count: int) -> None:
        """Waits until so many different records have been read."""

        def are_there() -> bool:
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    self.values.append(message.value().decode())
            return len(set(self.values)) >= count

        wait_until(are_there, SECONDS_MAX, f"{count} invoices")

    def close(self) -> None:
        self._consumer.close()


def committed(bootstrap: str) -> list[int]:
    asked = ConsumerGroupTopicPartitions("billing", [TopicPartition("orders", shard) for shard in range(SHARDS)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_consumer_group_offsets([asked])["billing"].result(20)
    return [each.offset for each in found.topic_partitions]


@pytest.mark.timeout(240)
def test_every_record_has_its_output_although_spus_and_the_replica_are_killed(tmp_path: Path) -> None:
    (tmp_path / "billing.py").write_text(FUNCTION)
    cluster = SeparateCluster(tmp_path)
    replica = Server(tmp_path, "replica", READY)
    try:
        cluster.start()
        watcher = Watcher(cluster.bootstrap)
        for topic in ("orders", "invoices"):
            watcher.create_topic(topic, SHARDS, configs={"min.insync.replicas": 2})
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(SHARDS * EACH):
            producer.produce("orders", b"order", b"%d" % number, partition=number % SHARDS)
        assert producer.flush(SECONDS_MAX) == 0
        replica.launch(tailrace("trigger", "run", str(tmp_path / "billing.py"), "--sc", cluster.sc, *TIMES))
        invoices = Invoices(cluster.bootstrap)
        invoices.wait_for(200)
        leader = watcher.states("invoices")[0].leader
        cluster.kill_spu(leader)
        invoices.wait_for(700)
        replica.kill()
        replica.launch(tailrace("trigger", "run", str(tmp_path / "billing.py"), "--sc", cluster.sc, *TIMES))
        invoices.wait_for(SHARDS * EACH)
        assert set(invoices.values) == {f"{shard}/{offset}" for shard in range(SHARDS) for offset in range(EACH)}
        wait_until(lambda: committed(cluster.bootstrap) == [EACH] * SHARDS, SECONDS_MAX, "everything is committed")
        assert replica.stop() == 0, replica.last_output()
        assert "Traceback" not in replica.errors(), replica.errors()
        invoices.close()
        cluster.stop()
    finally:
        replica.kill()
        cluster.kill()
