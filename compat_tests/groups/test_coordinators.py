"""If a coordinator goes offline while groups work, another one knows every commit, and the members continue."""

import re
import uuid
from collections import ChainMap

import pytest
from brokers import shared_nodes
from chaos.offset_watch import OffsetWatch
from chaos.records import RunningProducer
from node_cluster import Watcher
from waiting import wait_until

from .members import OFFSETS_TOPIC, ONE_OF_EACH_CLIENT, Member, partition_of, wait_until_shared

PARTITIONS = 3
MEMBERS = 2
PATIENCE_SECONDS = 60
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def nodes(request, tmp_path_factory):
    with shared_nodes(request, tmp_path_factory) as made:
        yield made


@pytest.fixture
def watcher(nodes):
    return Watcher(nodes.bootstrap)


@pytest.fixture
def topic(request, watcher):
    name = f"{re.sub('[^a-z0-9]+', '-', request.node.name)[:60]}-{uuid.uuid4().hex[:8]}"
    watcher.create_topic(name, PARTITIONS)
    return name


class WorkingGroup:
    def __init__(self, flavour, bootstrap, topic, name):
        self.name = name
        self.places = [(topic, partition) for partition in range(PARTITIONS)]
        self.members = [
            Member(flavour, bootstrap, name, [topic], f"{flavour}-{number}", session_ms=20_000, metadata_ms=1000)
            for number in range(MEMBERS)
        ]

    def committed(self):
        """Returns all committed offsets that were acknowledged, to any member."""
        told = [dict(member.committed) for member in self.members]
        return {place: max(each.get(place, 0) for each in told) for place in self.places if place in ChainMap(*told)}

    def wait_for_more(self):
        before = self.committed()

        def has_committed_more():
            now = self.committed()
            return all(now.get(place, 0) > before.get(place, 0) for place in self.places)

        wait_until(has_committed_more, PATIENCE_SECONDS, f"{self.name} commits more of each partition")


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_groups_continue_when_their_coordinator_goes_offline(nodes, watcher, topic, is_killed):
    places = [(topic, partition) for partition in range(PARTITIONS)]
    producer = RunningProducer("producer", nodes.bootstrap, places)
    groups, watch = [], None
    try:
        # The first request for a coordinator creates the internal topic.
        warming = Member(ONE_OF_EACH_CLIENT[2], nodes.bootstrap, "warming", [topic])
        groups.append(warming)
        wait_until_shared([warming], places, PATIENCE_SECONDS)
        victim = watcher.leader(OFFSETS_TOPIC)
        names = names_coordinated_by(victim, watcher)
        working = []
        for flavour in ONE_OF_EACH_CLIENT:
            working.append(WorkingGroup(flavour, nodes.bootstrap, topic, next(names)))
            groups += working[-1].members
        for group in working:
            wait_until_shared(group.members, places, PATIENCE_SECONDS)
            group.wait_for_more()
        watch = OffsetWatch(nodes.bootstrap.split(","), {group.name: group.committed for group in working})
        nodes.kill_node(victim) if is_killed else nodes.stop_node(victim)
        for group in working:
            watcher.leader_other_than(victim, OFFSETS_TOPIC, partition_of(group.name))
            group.wait_for_more()
        nodes.start_node(victim)
        producer.wait_for_more(20)
        producer.stop()
        ends = producer.sent().ends()
        for group in working:
            wait_until(
                lambda group=group: group.committed() == ends, PATIENCE_SECONDS, f"{group.name} commits everything"
            )
            wait_until(
                lambda group=group: watch.newest[group.name] == ends,
                PATIENCE_SECONDS,
                "every SPU reports these offsets",
            )
        watch.stop()
        assert not watch.contradictions, watch.contradictions[:10]
        sent = {value.decode() for log in producer.sent().acknowledged.values() for _, value in log}
        for group in working:
            assert sent <= {value for member in group.members for value in member.values}
    finally:
        producer.stop()
        if watch is not None:
            watch.stop()
        for member in groups:
            member.kill()


def names_coordinated_by(node, watcher):
    while True:
        name = f"group-{uuid.uuid4().hex[:8]}"
        if watcher.leader(OFFSETS_TOPIC, partition_of(name)) == node:
            yield name
