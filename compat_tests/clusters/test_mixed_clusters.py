"""A mixed cluster: two SPUs of `tailrace up` with three listeners, and a custom SPU with one.

The second listener is plain. The third has an address for its clients, so that the custom SPU has no address for them.
"""

import subprocess

import pytest
from cluster import READY_LINE, Server, tailrace
from free_ports import free_port
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from spu_cluster import PATIENCE, SPU_READY, cli, wait_until_online

PARTITIONS = 6
GROUPS = [f"readers-{number}" for number in range(12)]
LISTENER_NOT_FOUND = 72


class MixedCluster:
    def __init__(self, directory):
        self.first, self.second, self.third, self.custom = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.sc, self.private = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._up = Server(directory, "up", READY_LINE)
        self._spu = Server(directory, "spu-0", SPU_READY)
        self._directory = directory

    def start(self):
        public = ("--public", f"{self.first},{self.second},{self.third}={self.third}")
        self._up.start(
            tailrace(
                *("up", "--spus", "2", "--data", str(self._directory / "data"), *public, "--metrics", "off"),
                *("--sc", self.sc, "--sc-private", self.private, "--private", "127.0.0.1:0", *PATIENCE),
            )
        )
        addresses = ("--public", self.custom, "--private", f"127.0.0.1:{free_port()}")
        status, output = cli(self.sc, "spu", "register", "--id", "0", *addresses)
        assert status == 0, output
        where = ("--data", str(self._directory / "spu-0"), "--sc", self.private, "--metrics", "off")
        self._spu.start(tailrace("serve", "spu", "--id", "0", *where, *addresses))
        wait_until_online(self.sc, [0, 1, 2])
        shape = ("--partitions", str(PARTITIONS), "--replication-factor", "3")
        status, output = cli(self.sc, "topic", "create", "orders", *shape, "--wait", "30")
        assert status == 0, output

    def partitions(self, bootstrap):
        """Returns the brokers and the partitions of the topic, as a client of that address is told."""
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            (topic,) = admin.describe_topics(["orders"])
            brokers = {each["broker_id"] for each in admin.describe_cluster()["brokers"]}
        finally:
            admin.close()
        return brokers, {each["partition_index"]: each for each in topic["partitions"]}

    def kill(self):
        self._spu.kill()
        self._up.kill()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    cluster = MixedCluster(tmp_path_factory.mktemp("mixed"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


@pytest.mark.parametrize("listener", ["first", "second", "custom"])
def test_a_client_of_any_plain_listener_reaches_every_leader_and_every_coordinator(mixed, listener):
    bootstrap = getattr(mixed, listener)
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=False)
    sent = [producer.send("orders", listener.encode(), partition=number) for number in range(PARTITIONS)]
    places = {result.partition: result.offset for result in (each.get(20) for each in sent)}
    producer.close()
    assert sorted(places) == list(range(PARTITIONS))
    for group in GROUPS:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
        partitions = [TopicPartition("orders", number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        assert all(consumer.position(each) is not None for each in partitions), "the coordinator responds"
        consumer.close()


@pytest.mark.parametrize("listener", ["first", "second", "custom"])
def test_our_own_commands_reach_every_leader(mixed, listener):
    bootstrap = getattr(mixed, listener)
    lines = b"".join(b"%d:%s\n" % (number, listener.encode()) for number in range(50))
    words = ("produce", "orders", "--key-separator", ":", "--bootstrap", bootstrap)
    done = subprocess.run(tailrace(*words), input=lines, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_a_listener_with_an_address_for_its_clients_behaves_like_kafka(mixed):
    brokers, everywhere = mixed.partitions(mixed.first)
    assert brokers == {0, 1, 2}
    assert any(partition["leader_id"] == 0 for partition in everywhere.values()), "the custom SPU leads something"
    brokers, told = mixed.partitions(mixed.third)
    assert brokers == {1, 2}
    for number, partition in told.items():
        leader = everywhere[number]["leader_id"]
        expected = (LISTENER_NOT_FOUND, -1) if leader == 0 else (0, leader)
        assert (partition["error_code"], partition["leader_id"]) == expected
        assert partition["offline_replicas"] == [0]
        assert partition["isr_nodes"] == everywhere[number]["isr_nodes"]


def test_our_own_commands_say_why_they_cannot_reach_a_leader(mixed):
    _, told = mixed.partitions(mixed.third)
    number = next(number for number, partition in told.items() if partition["leader_id"] == -1)
    words = ("consume", f"orders:{number}", "--bootstrap", mixed.third)
    done = subprocess.run(tailrace(*words), capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "has no address for clients of this listener" in done.stderr
