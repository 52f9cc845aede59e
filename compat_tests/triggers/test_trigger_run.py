"""`tailrace trigger run` with a real cluster and worker processes, while stock clients produce and read the results.

Tailrace's own parts: a replica without a Streaming Controller runs against Apache Kafka as well.
"""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import is_apache_kafka
from cluster import FREE_PORTS, READY_LINE, Broker, Server, run_to_end, tailrace, tailrace_output
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
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


MODES = {
    "acknowledged": """
import random
from tailrace.trigger import trigger

held = []

@trigger("events", group="acknowledged", seek_to="earliest", acknowledgement="explicit", open_events_max=40)
def acknowledged(context, event):
    held.append(event)
    if len(held) == 7:
        random.shuffle(held)
        while held:
            held.pop().acknowledge()
""",
    "keyed": """
import os
from tailrace.trigger import Retry, trigger

@trigger("events", group="keyed", seek_to="earliest", order="key", max_workers=2,
         retry=Retry(attempts=2, backoff=(0.05, 0.1)))
def keyed(context, event):
    number = int(event.body)
    if number % 150 == 0:
        raise ValueError(f"no luck with {number}")
    if number == 77:
        os._exit(3)
""",
    "aged": """
from tailrace.trigger import Retry, trigger

@trigger("events", group="aged", seek_to="earliest", retry=Retry(attempts=1000, backoff=(30, 30), max_age=0.001))
def aged(context, event):
    if int(event.body) == 9:
        raise ValueError("no luck with 9")
""",
    "batches": """
from tailrace.trigger import Retry, trigger

@trigger("events", group="batches", seek_to="earliest", batch_size=32, batch_seconds=0.2,
         retry=Retry(attempts=2, split_batch=True, mode="aside", backoff=(0.05, 0.1)))
def batches(context, events):
    assert len(events) <= 32
    if any(int(event.body) == 55 for event in events):
        raise ValueError("no luck with 55")
""",
}
"""Functions for the topic `events`, by their group."""


@pytest.fixture
def function(tmp_path: Path) -> str:
    path = tmp_path / "billing.py"
    path.write_text(FUNCTION)
    return str(path)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yields the addresses of a broker and of its SC. The cluster has the topics of the functions."""
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka has no Streaming Controller")
    directory = tmp_path_factory.mktemp("cluster")
    server = Server(directory, "up", READY_LINE)
    topics = [word for topic in (f"orders:{SHARDS}", "invoices", f"events:{SHARDS}") for word in ("--topic", topic)]
    command = tailrace("up", "--data", str(directory / "data"), "--public", "127.0.0.1:0", *FREE_PORTS, *topics)
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


def _committed(bootstrap: str, group: str = "billing", topic: str = "orders") -> dict[int, int]:
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, each) for each in range(SHARDS)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        found = admin.list_consumer_group_offsets([asked])[group].result(10)
    except KafkaException as error:
        assert error.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS, error
        return {}
    return {each.partition: each.offset for each in found.topic_partitions}


def _commits_all(bootstrap: str, counts: dict[int, int], group: str = "billing", topic: str = "orders") -> None:
    wait_until(lambda: _committed(bootstrap, group, topic) == counts, 20, f"commits of {counts} by {group}")


def _scraped(replica: Server, path: str) -> str:
    lines = [json.loads(line) for line in replica.errors().splitlines()]
    (address,) = [line["address"] for line in lines if line["event"] == "metrics_served"]
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as response:
        text: str = response.read().decode()
    return text


def test_every_record_is_handled_once_and_committed_and_a_restart_repeats_nothing(
    cluster: tuple[str, str], function: str, tmp_path: Path
) -> None:
    bootstrap, sc = cluster
    _produce(bootstrap, 0, 3000)
    replica = Server(tmp_path, "replica", REPLICA_READY)
    command = tailrace("trigger", "run", function, "--sc", sc, "--metrics", "127.0.0.1:0", "--log-format", "json")
    try:
        ready = replica.start(command)
        assert ready.groups() == ("replica1", "bill", "orders", str(SHARDS))
        invoices = _invoices(bootstrap, 3000)
        orders = {f"{number % SHARDS}/{number // SHARDS}: order {number}" for number in range(3000)}
        assert Counter(invoices) == Counter(orders)
        _commits_all(bootstrap, dict.fromkeys(range(SHARDS), 1000))
        assert 'tailrace_trigger_events_total{trigger="bill"} 3000.0' in _scraped(replica, "/metrics")
        assert _scraped(replica, "/readyz") == "ready: member\n"
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


def test_all_ways_of_handling_commit_everything(cluster: tuple[str, str], tmp_path: Path) -> None:
    bootstrap, sc = cluster
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(294):  # a multiple of 7: the function acknowledges so many events at a time
        producer.produce("events", key=str(number % 10), value=str(number), partition=number % SHARDS)
    assert producer.flush(20) == 0
    replicas = {group: Server(tmp_path, group, REPLICA_READY) for group in MODES}
    try:
        for group, replica in replicas.items():
            path = tmp_path / f"{group}.py"
            path.write_text(MODES[group])
            replica.launch(tailrace("trigger", "run", str(path), "--sc", sc, "--commit-interval", "200ms"))
        for replica in replicas.values():
            replica.wait_until_ready()
        for group in MODES:
            _commits_all(bootstrap, dict.fromkeys(range(SHARDS), 98), group, "events")
        _has_values(bootstrap, "events.keyed.dead", {"0", "150", "77"})
        _has_values(bootstrap, "events.batches.dead", {"55"})
        _has_values(bootstrap, "events.aged.dead", {"9"})
        assert [replica.stop() for replica in replicas.values()] == [0] * len(MODES)
    finally:
        for replica in replicas.values():
            replica.kill()


def _has_values(bootstrap: str, topic: str, expected: set[str]) -> None:
    wait_until(lambda: set(_values(bootstrap, topic)) == expected, 20, f"{expected} in {topic}")


def _values(bootstrap: str, topic: str) -> list[str]:
    """Returns the values of all records that a topic has now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        places = [TopicPartition(topic, each, 0) for each in known]
        if not places:
            return []
        ends = sum(consumer.get_watermark_offsets(each, timeout=10)[1] for each in places)
        consumer.assign(places)
        found: list[str] = []
        while len(found) < ends and (messages := consumer.consume(100, timeout=2)):
            found += [each.value().decode() for each in messages if each.error() is None]
        return found
    finally:
        consumer.close()


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
