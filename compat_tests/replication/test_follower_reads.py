"""Consumers that name their rack read from the replica in it (KIP-392), and lose nothing if it goes offline."""

import json
import struct

import pytest
import raw
from brokers import shared_nodes
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition
from waiting import wait_until

NOT_LEADER_OR_FOLLOWER = 6
QUICKLY = {"reconnect.backoff.max.ms": 200, "log_level": 2}
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def nodes(request, tmp_path_factory):
    """Yields nodes that each have their own rack."""
    with shared_nodes(request, tmp_path_factory, has_racks=True) as made:
        yield made


class Reader:
    """A consumer of librdkafka that reads one partition from the beginning."""

    def __init__(self, nodes, topic, rack):
        self._topic = topic
        self._reads_from = None
        settings = {"bootstrap.servers": nodes.bootstrap, "group.id": "none", "client.rack": rack} | QUICKLY
        watched = {"statistics.interval.ms": 100, "stats_cb": self._on_statistics}
        self._consumer = Consumer(settings | watched)
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self.values = []

    def _on_statistics(self, text):
        partitions = json.loads(text)["topics"].get(self._topic, {"partitions": {}})["partitions"]
        self._reads_from = partitions["0"]["broker"] if "0" in partitions else None

    def read_to(self, count):
        def have_all_arrived():
            for message in self._consumer.consume(1000, 0.1):
                assert message.error() is None, message.error()
                self.values.append(message.value())
            return len(self.values) >= count

        wait_until(have_all_arrived, 60, f"{count} records of {self._topic}")

    def wait_until_it_reads_from(self, node):
        def does():
            self._consumer.poll(0.1)
            return self._reads_from == node

        wait_until(does, 30, f"records of {self._topic} are read from {node}")

    def close(self):
        self._consumer.close()


@pytest.fixture
def reader(nodes):
    made = []

    def make(topic, rack):
        made.append(Reader(nodes, topic, rack))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def follower(nodes, watcher, topic):
    leader = watcher.leader(topic)
    return next(node for node in nodes.ids if node != leader)


def produce(nodes, topic, values):
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all", "linger.ms": 5} | QUICKLY)
    errors = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and errors.append(error))
    assert producer.flush(60) == 0
    assert errors == []


def numbered(first, end):
    return [b"%d" % number for number in range(first, end)]


def test_librdkafka_reads_from_the_copy_in_its_rack(nodes, topic, follower, reader):
    produce(nodes, topic, numbered(0, 1000))
    consumer = reader(topic, f"rack-{follower}")
    consumer.read_to(1000)
    consumer.wait_until_it_reads_from(follower)
    produce(nodes, topic, numbered(1000, 2000))
    consumer.read_to(2000)
    assert consumer.values == numbered(0, 2000)
    consumer.wait_until_it_reads_from(follower)


@pytest.mark.parametrize("rack", ["the leader's", "unknown"])
def test_librdkafka_reads_from_the_leader_otherwise(nodes, watcher, topic, reader, rack):
    leader = watcher.leader(topic)
    produce(nodes, topic, numbered(0, 100))
    consumer = reader(topic, f"rack-{leader}" if rack == "the leader's" else "rack-99")
    consumer.read_to(100)
    consumer.wait_until_it_reads_from(leader)


def test_kafka_python_reads_from_the_copy_in_its_rack(nodes, topic, follower):
    produce(nodes, topic, numbered(0, 1000))
    consumer = KafkaConsumer(
        bootstrap_servers=nodes.bootstrap.split(","),
        client_rack=f"rack-{follower}",
        enable_auto_commit=False,
        max_partition_fetch_bytes=500,
    )
    try:
        place = PythonTopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        values = []

        def have_all_arrived():
            values.extend(record.value for records in consumer.poll(100).values() for record in records)
            return len(values) >= 1000

        wait_until(have_all_arrived, 60, "all records")
        assert values == numbered(0, 1000)
        nodes_metrics = consumer.metrics()
        rates = {node: nodes_metrics.get(f"consumer-node-metrics.node-{node}", {}) for node in nodes.ids}
        received = {node: metrics.get("incoming-byte-rate", 0) for node, metrics in rates.items()}
        assert max(received, key=received.get) == follower, received
    finally:
        consumer.close()


def test_a_consumer_continues_when_the_copy_in_its_rack_goes_offline(nodes, watcher, topic, follower, reader):
    produce(nodes, topic, numbered(0, 500))
    consumer = reader(topic, f"rack-{follower}")
    consumer.read_to(500)
    consumer.wait_until_it_reads_from(follower)
    nodes.kill_node(follower)
    try:
        produce(nodes, topic, numbered(500, 1000))
        consumer.read_to(1000)
        assert consumer.values == numbered(0, 1000)
    finally:
        nodes.start_node(follower)
    watcher.wait_until_in_sync(topic)
    produce(nodes, topic, numbered(1000, 1500))
    consumer.read_to(1500)
    assert consumer.values == numbered(0, 1500)


def test_a_follower_does_not_serve_requests_that_expect_the_leader(nodes, topic, follower):
    """Neither Fetch v4 nor a consumer's ListOffsets is served by a follower: only the leader is asked what is
    committed."""
    produce(nodes, topic, numbered(0, 10))
    with raw.connect(nodes.bootstrap.split(",")[nodes.ids.index(follower)]) as connection:
        fetched = connection.call(raw.FETCH, 4, raw.fetch_body(topic, 0, 0, bytes_max=1000))
        assert raw.fetch_result(fetched)[0] == NOT_LEADER_OR_FOLLOWER
        body = struct.pack(">ii", -1, 1) + raw.string(topic) + struct.pack(">iiq", 1, 0, -1)
        answer = connection.call(raw.LIST_OFFSETS, 1, body)
        (error,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
        assert error == NOT_LEADER_OR_FOLLOWER
