"""Commands that move replicas and elect leaders, as processes, on clusters of Tailrace and of Apache Kafka."""

import os
import signal
import subprocess
import uuid
from collections import Counter
from contextlib import closing

import pytest
from cluster import tailrace
from confluent_kafka import Consumer, Producer, TopicPartition
from peer.apache_kafka_cluster import ApacheKafkaCluster
from spu_cluster import PATIENCE, ManagedCluster, cli, objects, wait_until_online
from waiting import wait_until

KINDS = {
    "tailrace": lambda directory: ManagedCluster(directory, options=PATIENCE),
    "apache-kafka": ApacheKafkaCluster,
}
pytestmark = pytest.mark.timeout(240)
INTERNAL = "__consumer_offsets"


@pytest.fixture(scope="module", params=KINDS)
def address(request, tmp_path_factory):
    """Yields the address of a cluster of three brokers of each kind."""
    cluster = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    try:
        cluster.start()
        yield cluster.bootstrap
    finally:
        cluster.kill()


@pytest.fixture
def name(request):
    """Returns a unique name for a topic."""
    return f"{request.node.originalname[-40:]}-{uuid.uuid4().hex[:8]}"


def run(address, *words, status=0):
    """Runs a command with TAILRACE_BOOTSTRAP, and returns its output and errors."""
    environment = {**os.environ, "TAILRACE_BOOTSTRAP": address}
    done = subprocess.run(tailrace(*words), capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def partitions(address, topic):
    """Returns the partitions of a topic as librdkafka sees them, in order."""
    described = Producer({"bootstrap.servers": address}).list_topics(topic, timeout=30).topics[topic].partitions
    return [described[number] for number in sorted(described)]


def test_a_topic_gets_more_replicas_and_its_leaders_are_spread(address, name):
    rows = ",".join(f'"{number}": [1]' for number in range(3))
    create(address, name, f"{{{rows}}}")
    shown, said = run(address, "topic", "alter", name, "--replication-factor", "3")
    assert "REPLICAS" in shown
    assert "copying partitions:   0 %  0 of 3\n" in said
    assert said.endswith("tailrace topic alter: 3 partitions have 3 replicas now\n")
    now = partitions(address, name)
    assert all(sorted(each.isrs) == sorted(each.replicas) == [1, 2, 3] for each in now)
    assert Counter(each.leader for each in now) == {1: 1, 2: 1, 3: 1}
    assert (
        "every partition has 3 replicas already" in run(address, "topic", "alter", name, "--replication-factor", "3")[1]
    )
    assert (
        "needs 4 SPUs, and 3 are available"
        in run(address, "topic", "alter", name, "--replication-factor", "4", status=1)[1]
    )
    run(address, "topic", "alter", name, "--replication-factor", "2")
    assert [len(each.replicas) for each in partitions(address, name)] == [2, 2, 2]


def test_replicas_are_moved_by_hand_and_leaders_elected(address, name):
    create(address, name, '{"0": [1, 2], "1": [1, 2]}')
    assert run(address, "partition", "move", f"{name}/0", "--to", "3,1")[0] == f"moved {name}/0 to [3, 1]\n"
    first, second = partitions(address, name)
    assert (first.leader, first.replicas, sorted(first.isrs)) == (3, [3, 1], [1, 3])
    assert second.replicas == [1, 2]
    # The order of the replicas alone moves no leader: an election does.
    run(address, "partition", "move", f"{name}/1", "--to", "2,1", "--no-wait")
    wait_until(lambda: partitions(address, name)[1].replicas == [2, 1], 30, "the order has changed")
    assert run(address, "partition", "elect", name)[0] in (
        f"elected a leader of {name}/1\n",
        "no partition needed another leader\n",
    )
    assert partitions(address, name)[1].leader == 2
    assert run(address, "partition", "elect", f"{name}/1")[0] == "no partition needed another leader\n"
    assert run(address, "partition", "moves")[0] == "no partition is moving\n"
    assert run(address, "partition", "move", "--cancel")[0] == "no partition is moving\n"
    assert f"{name}/0: " in run(address, "partition", "move", f"{name}/0", "--to", "9", status=1)[1]
    assert "there is no partition" in run(address, "partition", "move", f"{name}/7", "--to", "1", status=1)[1]


def create(address, topic, rows):
    """Creates a topic with certain replicas."""
    path = "/dev/stdin"
    command = tailrace("topic", "create", topic, "--replica-assignment", path, "--wait", "20", "--bootstrap", address)
    done = subprocess.run(command, input=rows, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_cluster_that_grew_says_how_to_copy_its_topics_and_one_command_does_it(tmp_path, name):
    """`up`, then `up --spus 3`: the topics of the first day and the offsets of groups get copies."""
    cluster = ManagedCluster(tmp_path, spus=1)
    try:
        cluster.start()
        status, said = cli(cluster.sc, "topic", "create", name, "--partitions", "3")
        assert status == 0, said
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(300):
            producer.produce(name, b"%d" % number)
        assert producer.flush(30) == 0
        read(cluster.bootstrap, name, 300)
        cluster.stop()

        cluster = ManagedCluster(tmp_path, spus=3)
        cluster.start()
        hint = (
            "3 SPUs run, but 2 topics have fewer than 3 replicas, 1 of them internal. To copy them: "
            f"tailrace topic alter --all --replication-factor 3 --sc {cluster.sc}"
        )
        wait_until(lambda: hint in cluster.up.errors(), 10, "the hint")
        assert INTERNAL not in cli(cluster.sc, "topic", "list")[1]
        assert INTERNAL in cli(cluster.sc, "topic", "list", "--internal")[1]
        assert INTERNAL not in cli(cluster.sc, "partition", "list")[1]
        status, said = cli(cluster.sc, "topic", "alter", "--all", "--replication-factor", "3")
        assert (status, "53 partitions have 3 replicas now" in said) == (0, True), said
        found = objects(cluster.sc, "partition", "--internal")
        assert {(len(each["replicas"]), len(each["lrs"])) for each in found} == {(3, 3)}
        assert Counter(each["leader"] for each in found if each["topic"] == name) == {1: 1, 2: 1, 3: 1}
        # Everything survives the loss of the SPU that had the only copies.
        os.kill(cluster.spu_pid(1), signal.SIGSTOP)
        wait_until(lambda: not any(each["leader"] == 1 for each in objects(cluster.sc, "partition")), 30, "elections")
        with closing(consumer_of(cluster.bootstrap)) as consumer:
            committed = consumer.committed([TopicPartition(name, number) for number in range(3)], timeout=30)
        # A partition without records has no committed offset, which is a negative number then.
        assert sum(max(each.offset, 0) for each in committed) == 300
        os.kill(cluster.spu_pid(1), signal.SIGCONT)
        wait_until_online(cluster.sc, [1, 2, 3])
        cluster.stop()
    finally:
        cluster.kill()


def consumer_of(bootstrap):
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})


def read(bootstrap, topic, count):
    """Reads records as a group, and commits them."""
    with closing(consumer_of(bootstrap)) as consumer:
        consumer.subscribe([topic])
        assert len(consumer.consume(count, 30)) == count
        consumer.commit(asynchronous=False)
