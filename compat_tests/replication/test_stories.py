"""One fault at a time: what it may do to the clients that work meanwhile, and what the copies contain afterwards."""

import time
from contextlib import contextmanager

import pytest
from chaos.links import HEALTHY_LINK, LinkState
from chaos.records import QUICKLY, RunningConsumer, RunningLibrdkafkaConsumer, RunningProducer
from confluent_kafka import KafkaError, Producer
from freezing import frozen
from spu_cluster import SeparateCluster
from waiting import wait_until

SEVERED = LinkState(is_open=False)
SILENT = LinkState(silent=(True, True))
pytestmark = pytest.mark.timeout(180)


def test_a_leader_that_is_killed_is_followed_by_another_and_comes_back_as_a_follower(nodes, watcher, topic, load):
    leader = watcher.leader(topic)
    nodes.kill_node(leader)
    killed = time.monotonic()
    load.wait_for_more(1)
    print(f"acknowledged again after {time.monotonic() - killed:.2f} s")
    assert watcher.leader_other_than(leader, topic) != leader
    load.wait_for_more()
    nodes.start_node(leader)
    load.wait_for_more()
    load.check()


def test_a_killed_follower_delays_nobody_and_catches_up(nodes, watcher, topic, load):
    follower = next(node for node in nodes.ids if node != watcher.leader(topic))
    nodes.kill_node(follower)
    watcher.wait_until_in_sync(topic, copies=2)
    load.wait_for_more(100)
    nodes.start_node(follower)
    watcher.wait_until_in_sync(topic)
    load.wait_for_more()
    load.check()


def test_records_that_only_the_old_leader_had_are_truncated_when_it_returns(nodes, watcher, topic, load):
    leader = watcher.leader(topic)
    load.wait_for_more()
    with replication_stopped(nodes, leader):
        alone = produce_alone(nodes.bootstrap, topic, 50)
        nodes.kill_node(leader)
    watcher.leader_other_than(leader, topic)
    load.wait_for_more()
    nodes.start_node(leader)
    load.check()
    assert alone - load.values((topic, 0)), "nothing was truncated"


def test_every_node_is_restarted_under_load(nodes, load):
    for node in nodes.ids:
        assert nodes.stop_node(node) == 0
        load.wait_for_more()
        nodes.start_node(node)
        load.wait_for_more()
    load.check()


def test_everything_is_killed_at_once_and_comes_back(nodes, load):
    for node in nodes.ids:
        nodes.kill_node(node)
    nodes.kill_controller()
    nodes.start()
    load.wait_for_more()
    load.check()


def test_a_leader_that_was_frozen_does_not_lead_any_more(nodes, watcher, topic, load):
    leader = watcher.leader(topic)
    with frozen([nodes.node_pid(leader)]):
        watcher.leader_other_than(leader, topic)
        load.wait_for_more()
    load.wait_for_more()
    load.check()


def test_with_two_of_three_nodes_down_nothing_is_accepted_until_one_returns(nodes, watcher, topic, load):
    gone = {watcher.leader(topic)}
    gone.add(next(node for node in nodes.ids if node not in gone))
    for node in gone:
        nodes.kill_node(node)

    def is_refused():
        return refusal(nodes.bootstrap, topic) == KafkaError.NOT_ENOUGH_REPLICAS

    wait_until(is_refused, 60, "the record is refused")
    before = load.acknowledged()
    wait_until(is_refused, 60, "the record is refused again")
    assert load.acknowledged() == before
    first, second = gone
    nodes.start_node(first)
    load.wait_for_more()
    nodes.start_node(second)
    load.check()


def test_a_leader_is_followed_without_a_controller_but_not_replaced(nodes, watcher, topic, load):
    follower = next(node for node in nodes.ids if node != watcher.leader(topic))
    nodes.kill_controller()
    try:
        load.wait_for_more()
        nodes.kill_node(follower)
    finally:
        nodes.start_controller()
    load.wait_for_more()
    nodes.start_node(follower)
    load.check()


def test_a_follower_whose_link_is_severed_leaves_the_set_and_returns(nodes, links, watcher, topic, load):
    leader = watcher.leader(topic)
    follower = next(node for node in nodes.ids if node != leader)
    links.set(leader, follower, SEVERED)
    watcher.wait_until_in_sync(topic, copies=2)
    load.wait_for_more()
    links.set(leader, follower, HEALTHY_LINK)
    watcher.wait_until_in_sync(topic)
    load.wait_for_more()
    load.check()


@pytest.mark.parametrize("state", [SEVERED, SILENT], ids=["severed", "silent"])
def test_a_leader_that_reaches_nobody_acknowledges_nothing(nodes, links, watcher, topic, load, state):
    leader = watcher.leader(topic)
    links.isolate(leader, state)
    wait_until(lambda: refusal(nodes.bootstrap, topic) == KafkaError.NOT_ENOUGH_REPLICAS, 60, "the record is refused")
    links.restore_all()
    load.wait_for_more()
    load.check()


@pytest.mark.parametrize("state", [SEVERED, SILENT], ids=["severed", "silent"])
def test_clients_move_on_from_a_leader_that_only_they_can_reach(nodes, links, watcher, topic, load, state):
    leader = watcher.leader(topic)
    links.isolate_from_all(leader, state)
    load.wait_for_more()
    links.restore_all()
    load.wait_for_more()
    load.check()


@pytest.mark.parametrize("state", [SEVERED, SILENT], ids=["severed", "silent"])
def test_clients_that_know_only_an_isolated_leader_find_another_one(nodes, links, watcher, state):
    """Everything that the isolated leader says about the cluster is out of date."""
    topic = f"a-single-partition-{state.is_open}"
    watcher.create_topic(topic, configs={"min.insync.replicas": 2, "lrs.max.lag.ms": 1000})
    leader = watcher.leader(topic)
    address = nodes.bootstrap.split(",")[nodes.ids.index(leader)]
    producer = RunningProducer("alone", address, [(topic, 0)])
    consumers = [kind(address, topic, 1) for kind in (RunningConsumer, RunningLibrdkafkaConsumer)]
    try:
        producer.wait_for_more(20)
        links.isolate_from_all(leader, state)
        producer.wait_for_more(20)
        producer.stop()
        for consumer in consumers:
            consumer.wait_for({(topic, 0): producer.acknowledged_count()})
        assert not [each for client in (producer, *consumers) for each in client.errors]
    finally:
        for client in (producer, *consumers):
            client.stop()


def test_followers_are_waited_for_when_links_are_slow(links, nodes, load):
    for node in nodes.ids:
        links.isolate(node, LinkState(delay_seconds=0.1))
    load.wait_for_more()
    load.check()


@contextmanager
def replication_stopped(nodes, leader):
    """Keeps the followers from replicating, for a short time in which the leader still counts them as live."""
    if isinstance(nodes, SeparateCluster):
        # Frozen followers would still find in their sockets what the leader had sent them.
        nodes.links.isolate(leader, SILENT)
        try:
            yield
        finally:
            nodes.links.isolate(leader, SEVERED)
            nodes.links.restore_all()
    else:
        with frozen([nodes.node_pid(node) for node in nodes.ids if node != leader]):
            yield


def produce_alone(bootstrap, topic, count):
    """Produces with acks=1, and returns what the leader of partition 0 acknowledged."""
    acknowledged = set()

    def on_delivery(error, message):
        if error is None:
            acknowledged.add(message.value())

    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0} | QUICKLY)
    for number in range(count):
        producer.produce(topic, b"alone:%d" % number, partition=0, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    return acknowledged


def refusal(bootstrap, topic):
    """Produces one record to partition 0 with acks=all, and returns its error code, or None if it was stored."""
    errors = []
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "retries": 0, "message.timeout.ms": 5000, "linger.ms": 0}
    producer = Producer(settings | QUICKLY)
    producer.produce(topic, b"refused", partition=0, on_delivery=lambda error, _: errors.append(error and error.code()))
    producer.flush(10)
    return errors[0] if errors else KafkaError._TIMED_OUT
