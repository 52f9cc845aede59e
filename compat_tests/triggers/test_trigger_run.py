"""`tailrace trigger run` with a real cluster and worker processes, while stock clients produce and read the results.

Tailrace's own parts: a replica without a Streaming Controller runs against Apache Kafka as well.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import is_apache_kafka
from cluster import FREE_PORTS, READY_LINE, Broker, Server, run_to_end, tailrace, tailrace_output
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from waiting import wait_until

SHARDS = 3
REPLICA_READY = re.compile(r"^ready (\S+) of trigger (\S+) handles (\S+) \((\d+) shards\)", re.MULTILINE)
FUNCTION = """
from tailrace.trigger import trigger

@trigger("orders", group="billing", seek_to="earliest", max_workers=2)
def bill(context, event):
    context.emit("invoices", key=event.key, value=f"{event.shard_id}/{event.offset}: {event.body.decode()}")
"""


@pytest.fixture
def function(tmp_path: Path) -> str:
    path = tmp_path / "billing.py"
    path.write_text(FUNCTION)
    return str(path)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Yields the addresses of a broker and of its SC. The cluster has the topics of the function."""
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka has no Streaming Controller")
    server = Server(tmp_path, "up", READY_LINE)
    topics = ("--topic", f"orders:{SHARDS}", "--topic", "invoices")
    command = tailrace("up", "--data", str(tmp_path / "data"), "--public", "127.0.0.1:0", *FREE_PORTS, *topics)
    try:
        ready = server.start([*command, "--metrics", "off"])
        yield ready[1], ready[2]
    finally:
        server.kill()


def _produce(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce("orders", key=f"customer-{number % 17}", value=f"order {number}", partition=number % SHARDS)
    assert producer.flush(20) == 0


def _invoices(bootstrap: str, count: int) -> list[str]:
    """Reads so many invoices, and checks that there are no more."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition("invoices", 0, 0)])
    found: list[str] = []

    def has_all() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            found.append(message.value().decode())
        return len(found) >= count

    wait_until(has_all, 30, f"{count} invoices")
    _, end = consumer.get_watermark_offsets(TopicPartition("invoices", 0))
    consumer.close()
    assert end == len(found) == count
    return found


def _committed(bootstrap: str) -> dict[int, int]:
    asked = ConsumerGroupTopicPartitions("billing", [TopicPartition("orders", each) for each in range(SHARDS)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_consumer_group_offsets([asked])["billing"].result(10)
    return {each.partition: each.offset for each in found.topic_partitions}


def _commits_all(bootstrap: str, counts: dict[int, int]) -> None:
    wait_until(lambda: _committed(bootstrap) == counts, 15, f"commits of {counts}")


def test_every_record_is_handled_once_and_committed_and_a_restart_repeats_nothing(
    cluster: tuple[str, str], function: str, tmp_path: Path
) -> None:
    bootstrap, sc = cluster
    _produce(bootstrap, 0, 3000)
    replica = Server(tmp_path, "replica", REPLICA_READY)
    command = tailrace("trigger", "run", function, "--sc", sc)
    try:
        ready = replica.start(command)
        assert ready.groups() == ("replica1", "bill", "orders", str(SHARDS))
        invoices = _invoices(bootstrap, 3000)
        orders = {f"{number % SHARDS}/{number // SHARDS}: order {number}" for number in range(3000)}
        assert Counter(invoices) == Counter(orders)
        _commits_all(bootstrap, dict.fromkeys(range(SHARDS), 1000))
        (member,) = json.loads(tailrace_output("trigger", "state", "orders", "--sc", sc))
        assert (member["member_id"], member["shards"]) == ("replica1", f"0-{SHARDS - 1}")
        assert replica.stop() == 0
        assert json.loads(tailrace_output("trigger", "state", "orders", "--sc", sc)) == []

        _produce(bootstrap, 3000, 300)
        replica.start(command)
        assert len(set(_invoices(bootstrap, 3300))) == 3300
        _commits_all(bootstrap, dict.fromkeys(range(SHARDS), 1100))
    finally:
        replica.kill()


def test_a_replica_without_an_sc_works_with_any_broker(broker: Broker, function: str, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic("orders", SHARDS, 1), NewTopic("invoices", 1, 1)]).values():
        future.result(20)
    _produce(broker.bootstrap, 0, 300)
    replica = Server(tmp_path, "replica", REPLICA_READY)
    try:
        replica.start(tailrace("trigger", "run", function, "--bootstrap", broker.bootstrap))
        assert len(set(_invoices(broker.bootstrap, 300))) == 300
        assert replica.stop() == 0
        assert _committed(broker.bootstrap) == dict.fromkeys(range(SHARDS), 100)
    finally:
        replica.kill()


def test_what_cannot_run_is_one_sentence(cluster: tuple[str, str], function: str, tmp_path: Path) -> None:
    _, sc = cluster
    broken = tmp_path / "broken.py"
    broken.write_text("import nothing_of_that_name\n")
    for words, status, sentence in (
        ((function, "--topic", "nope"), 1, "nope"),
        ((str(broken),), 2, "nothing_of_that_name"),
        (("--deployed", "billing"), 1, "there is no trigger billing"),
    ):
        ended, output = run_to_end(tailrace("trigger", "run", *words, "--sc", sc))
        assert (ended, output.count("\n")) == (status, 1), output
        assert sentence in output
