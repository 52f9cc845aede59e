"""SPUs and SCs that are killed, unregistered or started twice do not lose acknowledged records."""

import itertools
import os
import re
import shutil
import struct
import threading
from contextlib import ExitStack, closing

import pytest
from clients.librdkafka import read
from cluster import run_to_end, tailrace
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from free_ports import free_port
from kafka.errors import InvalidReplicationFactorError
from raw import METADATA, connect, metadata_request, string
from spu_cluster import ANY_PORT, PATIENCE, SeparateCluster, cli, objects, resolutions, wait_until_online
from waiting import wait_until

PARTITIONS = 6
QUICKLY = {"reconnect.backoff.max.ms": 200, "topic.metadata.refresh.interval.ms": 1000}


class RunningProducer:
    """Sends numbers to all partitions in turn until it is told to stop, and knows which were acknowledged."""

    def __init__(self, bootstrap, topic):
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True}
        self._producer = Producer(settings | QUICKLY)
        self._topic = topic
        self._stopping = threading.Event()
        self.acknowledged = [[] for _ in range(PARTITIONS)]
        self.failures = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        for number in itertools.count():
            if self._stopping.is_set():
                break
            self._producer.produce(
                self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._on_delivery
            )
            self._producer.poll(0.001)

    def _on_delivery(self, error, message):
        if error is None:
            self.acknowledged[message.partition()].append(message.value())
        else:
            self.failures.append(error)

    def wait_for_more(self, count=100):
        """Waits until each partition has `count` more acknowledged records."""
        goals = [len(each) + count for each in self.acknowledged]
        wait_until(
            lambda: all(len(each) >= goal for each, goal in zip(self.acknowledged, goals, strict=True)),
            seconds=60,
            what=f"{count} more acknowledged records in each partition",
        )

    def close(self):
        self._stopping.set()
        self._thread.join()

    def stop(self):
        """Stops the producer, and returns after the last acknowledgement."""
        self.close()
        assert self._producer.flush(60) == 0
        assert self.failures == []


@pytest.fixture
def start_producer():
    """Yields a function that starts producers. They end with the test."""
    with ExitStack() as stack:
        yield lambda bootstrap, topic: stack.enter_context(closing(RunningProducer(bootstrap, topic)))


def stored(bootstrap, topic):
    """Returns the values of each partition that are stored now, and perhaps some more of a partition that grows
    meanwhile."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False} | QUICKLY)
    counts = []
    for partition in range(PARTITIONS):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
        counts.append(high - low)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    values = [[] for _ in range(PARTITIONS)]
    while missing := sum(max(0, count - len(each)) for count, each in zip(counts, values, strict=True)):
        for message in read(consumer, missing, seconds=40):
            values[message.partition()].append(message.value())
    consumer.close()
    return values


def read_to_the_end(bootstrap, topic):
    """Returns the values of each partition, in which elections have left offsets without records."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap} | settings | QUICKLY)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    values = [[] for _ in range(PARTITIONS)]
    left = set(range(PARTITIONS))
    while left:
        message = consumer.poll(20)
        assert message is not None, f"partitions {left} do not end"
        if message.error() is None:
            values[message.partition()].append(message.value())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition())
    consumer.close()
    return values


def create(cluster, topic, partitions=PARTITIONS, replication_factor=1, policy="live"):
    status, output = cli(
        cluster.sc,
        *("topic", "create", topic, "--partitions", str(partitions), "--config", f"replication.policy={policy}"),
        *("--replication-factor", str(replication_factor), "--wait", "20"),
    )
    assert status == 0, output


@pytest.fixture(params=["separate", "managed"])
def cluster(request):
    made = request.getfixturevalue(request.param)
    made.start()
    return made


def test_an_spu_that_is_killed_comes_back_with_its_id_and_all_that_it_acknowledged(cluster, name, start_producer):
    create(cluster, name)
    producer = start_producer(cluster.bootstrap, name)
    producer.wait_for_more()
    before = cluster.spu_pid(2)
    cluster.kill_spu(2)
    assert cluster.spu_pid(2) != before
    producer.wait_for_more()
    producer.stop()
    wait_until_online(cluster.sc, cluster.ids)
    assert stored(cluster.bootstrap, name) == producer.acknowledged
    wait_until(lambda: resolutions(cluster.sc) == dict.fromkeys(cluster.ids, "Online"), what="all are online")


def test_clients_work_without_a_killed_sc_and_it_continues_where_it_was(separate, name, make_admin, start_producer):
    separate.start()
    create(separate, name)
    producer = start_producer(separate.bootstrap, name)
    producer.wait_for_more()
    separate.controller.kill()
    producer.wait_for_more()
    assert [len(values) > 100 for values in stored(separate.bootstrap, name)] == [True] * PARTITIONS
    status, output = cli(separate.sc, "spu", "list")
    assert status == 3, output
    separate.start_sc()
    wait_until_online(separate.sc, separate.ids)
    create(separate, f"{name}-after")
    producer.wait_for_more()
    producer.stop()
    assert stored(separate.bootstrap, name) == producer.acknowledged
    assert {name, f"{name}-after"} <= set(make_admin(separate.bootstrap).list_topics())


@pytest.mark.timeout(180)
def test_others_lead_what_a_killed_spu_led_and_its_leaders_stay(separate, name):
    separate.start()
    status, output = cli(separate.sc, *("topic", "create", name, "--partitions", "150"), "--replication-factor", "3")
    assert status == 0, output

    def partitions():
        return {each["partition"]: each for each in objects(separate.sc, "partition", name)}

    def all_have(live):
        return lambda: all(
            each["resolution"] == "Online" and len(each["lrs"]) == live for each in partitions().values()
        )

    wait_until(all_have(live=3), 60, "all replicas are live")
    before = partitions()
    lost = before[0]["leader"]
    led = {number for number, each in before.items() if each["leader"] == lost}
    assert len(led) >= 50
    separate.kill_node(lost)
    wait_until(all_have(live=2), 60, "other SPUs lead, and the killed SPU is not live")
    after = partitions()
    assert all(each["leader"] not in (lost, -1) for each in after.values())
    assert {number for number in before if after[number]["epoch"] != before[number]["epoch"]} == led
    assert [after[number]["spec"]["replicas"] for number in before] == [
        each["spec"]["replicas"] for each in before.values()
    ]
    separate.start_spu(lost)
    wait_until(all_have(live=3), 60, "it follows")
    assert all(each["leader"] != lost for each in partitions().values())
    separate.stop()


def test_an_spu_is_admitted_once_it_is_registered(separate):
    separate.ids = (1,)
    separate.start()
    stranger = separate.launch_spu(7)
    wait_until(lambda: "not registered" in stranger.errors(), 20, "the unregistered SPU learns why it is refused")
    wait_until(lambda: resolutions(separate.sc) == {1: "Online"}, what="only the first SPU is online")
    separate.register(7)
    separate.wait_for_spu(7)
    wait_until_online(separate.sc, [1, 7])


def test_the_second_of_two_processes_with_one_id_is_refused_and_the_first_continues(separate):
    separate.ids = (1,)
    separate.start()
    status, output = run_to_end(separate.spu_command(1, "another-directory"))
    assert status == 1
    assert "tailrace serve spu: " in output.splitlines()[-1]
    wait_until(lambda: resolutions(separate.sc) == {1: "Online"}, what="only the first SPU is online")


def test_an_spu_that_is_not_registered_can_be_stopped(separate):
    separate.ids = ()
    separate.start()
    stranger = separate.launch_spu(7)
    wait_until(lambda: "not registered" in stranger.errors(), 20, "the unregistered SPU learns why it is refused")
    assert stranger.stop() == 0


def test_two_servers_cannot_share_a_directory(separate):
    separate.ids = (1,)
    separate.start()
    sc_command = [ANY_PORT if word in (separate.sc, separate.sc_private) else word for word in separate.sc_command()]
    for command in (sc_command, separate.spu_command(1)):
        status, output = run_to_end(command)
        assert status == 1
        assert re.search(r"is in use by process \d+ \(.*tailrace serve", output.splitlines()[-1]), output


def test_a_topic_waits_for_spus_that_are_registered_later(separate, name, make_admin):
    separate.ids = (1, 2)
    separate.start()
    status, output = cli(separate.sc, "topic", "create", name, "--partitions", "3", "--replication-factor", "3")
    assert status == 4, output
    wait_until(
        lambda: "InsufficientResources" in cli(separate.sc, "topic", "list")[1],
        what="the topic's status says what is missing",
    )
    admin = make_admin(separate.bootstrap)
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics({f"{name}-kafka": {"num_partitions": 3, "replication_factor": 3}})
    assert f"{name}-kafka" not in cli(separate.sc, "topic", "list")[1]
    separate.register(3)
    separate.start_spu(3)
    wait_until(lambda: "Provisioned" in cli(separate.sc, "topic", "list")[1], 20, "the topic is provisioned")
    wait_until(lambda: name in admin.list_topics(), 20, "clients see the topic")


def test_clients_are_told_the_address_that_was_registered(separate):
    """The registered address is another name for the one that the SPU listens on."""
    separate.ids = ()
    separate.start()
    port = free_port()
    separate.register(5, public=f"localhost:{port}")
    separate.start_spu(5, public=f"127.0.0.1:{port}")
    wait_until_online(separate.sc, [5])
    with connect(separate.sc) as connection:
        told = connection.call(METADATA, 1, metadata_request())
    assert told.startswith(struct.pack(">ii", 1, 5) + string("localhost") + struct.pack(">i", port))


def test_a_clean_stop_and_a_start_find_everything_again(cluster, name, start_producer):
    create(cluster, name)
    producer = start_producer(cluster.bootstrap, name)
    producer.wait_for_more(10)
    producer.stop()
    cluster.stop()
    cluster.start()
    assert stored(cluster.bootstrap, name) == producer.acknowledged


@pytest.fixture
def replacing(tmp_path):
    """Yields a cluster that is not started yet, which replaces SPUs that are offline for long."""
    made = SeparateCluster(tmp_path, sc_options=("--replace-after", "3", "--reconciliation", "1"))
    try:
        yield made
    finally:
        made.kill()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("policy", ["live", "majority", "nrw:3,1,3"])
def test_a_fourth_spu_replaces_one_that_is_lost_for_good_under_load(replacing, name, policy, start_producer):
    replacing.start()
    create(replacing, name, replication_factor=3, policy=policy)
    replacing.register(4)
    replacing.start_spu(4)
    replacing.ids = (1, 2, 3, 4)
    wait_until_online(replacing.sc, replacing.ids)
    producer = start_producer(replacing.bootstrap, name)
    producer.wait_for_more()
    replacing.kill_node(2)

    def is_replaced() -> bool:
        partitions = objects(replacing.sc, "partition")
        return all(set(each["replicas"]) == set(each["lrs"]) == {1, 3, 4} for each in partitions)

    wait_until(is_replaced, 120, "SPU 4 holds each partition instead of SPU 2")
    producer.wait_for_more()
    if policy != "nrw:3,1,3":  # with W = 3, every copy set needs all of its SPUs
        replacing.kill_node(3)
        producer.wait_for_more()
    producer.stop()
    assert read_to_the_end(replacing.bootstrap, name) == producer.acknowledged


MEBIBYTE = 1 << 20
LARGE_BYTES = 48 * MEBIBYTE


def fill(bootstrap, topic):
    """Creates one partition, with records that cannot be compressed."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5} | QUICKLY)
    value, failures = os.urandom(64 * 1024), []
    for _ in range(LARGE_BYTES // len(value)):
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and failures.append(error))
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


@pytest.mark.timeout(240)
@pytest.mark.parametrize("policy", ["live", "majority"])
def test_a_lost_replica_is_copied_from_a_follower_and_spares_the_leader(tmp_path, name, policy, start_producer):
    sc_options = (*PATIENCE, "--replace-after", "2", "--reconciliation", "1")
    cluster = SeparateCluster(tmp_path, sc_options=sc_options, has_metrics=True)
    try:
        cluster.start()
        create(cluster, name, replication_factor=3, policy=policy)
        fill(cluster.bootstrap, name)
        producer = start_producer(cluster.bootstrap, name)
        producer.wait_for_more()

        def filled():
            (found,) = (each for each in objects(cluster.sc, "partition") if each["partition"] == 0)
            return found

        leader = filled()["leader"]
        lost = min(set(cluster.ids) - {leader})
        holder = 6 - leader - lost
        cluster.kill_node(lost)
        shutil.rmtree(tmp_path / f"spu-{lost}")
        cluster.register(4)
        cluster.start_spu(4)
        cluster.ids = (leader, holder, 4)
        wait_until_online(cluster.sc, cluster.ids)
        by_leaders = sum(cluster.metric(spu, "tailrace_caught_up_bytes") for spu in (leader, holder))

        def is_whole():
            partitions = objects(cluster.sc, "partition")
            return all(set(each["replicas"]) == set(each["lrs"]) == set(cluster.ids) for each in partitions)

        wait_until(is_whole, 120, "SPU 4 holds each partition")
        producer.wait_for_more()
        producer.stop()
        assert filled()["leader"] == leader
        copied = cluster.metric(4, "tailrace_copied_bytes")
        by_leaders = sum(cluster.metric(spu, "tailrace_caught_up_bytes") for spu in (leader, holder)) - by_leaders
        print(f"copied from SPU {holder}: {copied:,.0f} bytes; sent by leaders: {by_leaders:,.0f}")
        assert copied > 0.9 * LARGE_BYTES
        assert by_leaders < 0.1 * LARGE_BYTES, "the leaders sent little, including the data of the other partitions"
        assert cluster.metric(holder, "tailrace_fetched_bytes") >= copied
        assert cluster.metric(leader, "tailrace_fetched_bytes") == 0
        read = read_to_the_end(cluster.bootstrap, name)
        assert [value for value in read[0] if len(value) < 100] == producer.acknowledged[0]
        assert read[1:] == producer.acknowledged[1:]

        def sizes():
            return {cluster.log_bytes(spu, name, 0) for spu in cluster.ids}

        wait_until(lambda: len(sizes()) == 1, 30, "all copies have the same size")
        cluster.stop_spu(4)
        status, output = run_to_end(tailrace("log", "verify", str(tmp_path / "spu-4")))
        assert status == 0, output
    finally:
        cluster.kill()
