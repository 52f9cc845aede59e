"""Stock readers of committed records see what a trigger emits exactly once, although replicas and SPUs are killed.

The trigger sees committed records only: what a stock producer has aborted never reaches its function.

Tailrace's own parts: a replica without a Streaming Controller runs against Apache Kafka as well.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
from brokers import is_apache_kafka
from cluster import Server, tailrace
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from node_cluster import Watcher
from spu_cluster import SeparateCluster
from topics import CreateTopic
from waiting import wait_until

SHARDS, EACH = 3, 400
SECONDS_MAX = 90
READY = re.compile(r"^ready \S+ of trigger .*$", re.MULTILINE)
FUNCTION = """
import time
from tailrace.trigger import trigger

@trigger("orders", name="bill", seek_to="earliest", max_workers=2, guarantee="exactly-once")
def bill(context, event):
    time.sleep(0.003)
    order = event.body.decode()
    context.emit("OUTPUT", order, key=event.key)
    if order.endswith("00"):
        context.emit("OUTPUT", f"{order} again")
"""
TIMES = ("--session-timeout", "2s", "--heartbeat-interval", "400ms", "--commit-interval", "200ms")
ORDERS = SHARDS * EACH
EXPECTED = Counter(
    [f"{order}" for order in range(ORDERS)] + [f"{order} again" for order in range(ORDERS)[::100] if order]
)


class Reader:
    """Reads what the trigger has emitted, with a stock client."""

    def __init__(self, bootstrap: str, topic: str, isolation: str = "read_committed") -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )
        self._consumer.assign([TopicPartition(topic, shard, 0) for shard in range(SHARDS)])
        self.values: Counter[str] = Counter()

    def poll(self, seconds: float = 0.1) -> int:
        """Reads what there is; returns how many records have been read in all."""
        for message in self._consumer.consume(500, seconds):
            if message.error() is None:
                self.values[message.value().decode()] += 1
        return self.values.total()

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.poll() >= count, SECONDS_MAX, f"{count} records of the trigger")

    def close(self) -> None:
        self._consumer.close()


def produce(bootstrap: str, topic: str) -> None:
    """Sends orders, and in their middle some that are aborted."""
    producer = Producer({"bootstrap.servers": bootstrap})
    aborting = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-writer"})
    aborting.init_transactions(SECONDS_MAX)
    for order in range(ORDERS):
        if order == ORDERS // 2:
            assert producer.flush(SECONDS_MAX) == 0
            aborting.begin_transaction()
            for number in range(SHARDS * 10):
                aborting.produce(topic, b"aborted", partition=number % SHARDS)
            assert aborting.flush(SECONDS_MAX) == 0
            aborting.abort_transaction(SECONDS_MAX)
        producer.produce(topic, b"%d" % order, b"customer %d" % (order % 17), partition=order % SHARDS)
    assert producer.flush(SECONDS_MAX) == 0


def ends(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    found = [consumer.get_watermark_offsets(TopicPartition(topic, shard), 20)[1] for shard in range(SHARDS)]
    consumer.close()
    return found


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, shard) for shard in range(SHARDS)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_consumer_group_offsets([asked])[group].result(20)
    return [each.offset for each in found.topic_partitions]


def launch(replica: Server, path: Path, *where: str) -> None:
    replica.launch(tailrace("trigger", "run", str(path), "--group", "billing", *where, *TIMES))


@pytest.mark.timeout(240)
def test_readers_see_each_output_once_although_spus_and_replicas_are_killed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka has no Streaming Controller")
    (tmp_path / "billing.py").write_text(FUNCTION.replace("OUTPUT", "invoices"))
    cluster = SeparateCluster(tmp_path)
    replicas = [Server(tmp_path, f"replica{number}", READY) for number in (1, 2)]

    def start(number: int) -> None:
        where = ("--sc", cluster.sc, "--replica", f"replica{number + 1}", "--replicas", "2")
        launch(replicas[number], tmp_path / "billing.py", *where)

    try:
        cluster.start()
        watcher = Watcher(cluster.bootstrap)
        for topic in ("orders", "invoices"):
            watcher.create_topic(topic, SHARDS, configs={"min.insync.replicas": 2})
        produce(cluster.bootstrap, "orders")
        for number in range(2):
            start(number)
        reader = Reader(cluster.bootstrap, "invoices")
        reader.wait_for(100)
        cluster.kill_spu(watcher.states("invoices")[0].leader)
        reader.wait_for(300)
        replicas[0].kill()
        start(0)
        reader.wait_for(600)
        cluster.kill_spu(watcher.states("__transaction_state")[0].leader)
        replicas[1].kill()
        start(1)
        reader.wait_for(EXPECTED.total())
        end = ends(cluster.bootstrap, "orders")
        wait_until(lambda: committed(cluster.bootstrap, "billing", "orders") == end, SECONDS_MAX, "the end")
        reader.poll(2)
        assert reader.values == EXPECTED
        for each in replicas:
            each.wait_until_ready()
            assert each.stop() == 0, each.last_output()
            assert "Traceback" not in each.errors(), each.errors()
        reader.close()
        cluster.stop()
    finally:
        for each in replicas:
            each.kill()
        cluster.kill()


@pytest.mark.timeout(240)
def test_a_lone_replica_that_is_killed_again_and_again_stores_each_output_once(
    bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    orders, invoices = create_topic(partitions=SHARDS), create_topic(partitions=SHARDS)
    path = tmp_path / "billing.py"
    path.write_text(FUNCTION.replace("OUTPUT", invoices))
    produce(bootstrap, orders)
    replica = Server(tmp_path, "replica", READY)
    where = ("--bootstrap", bootstrap, "--topic", orders)
    reader, everything = Reader(bootstrap, invoices), Reader(bootstrap, invoices, "read_uncommitted")
    try:
        launch(replica, path, *where)
        for count in (150, 500, 900):
            reader.wait_for(count)
            replica.kill()
            launch(replica, path, *where)
        reader.wait_for(EXPECTED.total())
        assert replica.stop() == 0, replica.last_output()
        reader.poll(1)
        assert reader.values == EXPECTED
        assert committed(bootstrap, "billing", orders) == ends(bootstrap, orders)
        everything.wait_for(EXPECTED.total() + 1)  # some records were handled twice
    finally:
        replica.kill()
        reader.close()
        everything.close()
