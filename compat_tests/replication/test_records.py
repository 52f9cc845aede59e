"""`tailrace produce` and `tailrace consume` while leaders are killed; the first test also runs on Apache Kafka."""

import json
import subprocess
import threading

import pytest
from cluster import tailrace
from spu_cluster import SeparateCluster

from .test_stories import produce_alone, replication_stopped

pytestmark = pytest.mark.timeout(180)
LINES = 20_000


def values(nodes, *words):
    command = tailrace("consume", *words, "--bootstrap", nodes.bootstrap, "--values")
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_each_line_is_stored_once_and_in_order_although_its_leader_died(nodes, watcher, topic):
    leader = watcher.leader(topic)
    command = tailrace("produce", f"{topic}/0", "--bootstrap", nodes.bootstrap, "--output", "json")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as producing:

        def write(first, end):
            for number in range(first, end):
                producing.stdin.write(b"%d\n" % number)
            producing.stdin.flush()

        write(0, LINES)
        killing = threading.Thread(target=nodes.kill_node, args=(leader,))
        killing.start()
        write(LINES, 2 * LINES)
        killing.join()
        watcher.leader_other_than(leader, topic)
        write(2 * LINES, 3 * LINES)
        said, fault = producing.communicate(timeout=60)
    assert producing.returncode == 0, fault
    assert json.loads(said)[0]["records"] == 3 * LINES
    assert [int(value) for value in values(nodes, f"{topic}/0")] == list(range(3 * LINES))


def test_uncommitted_records_are_shown_as_such_and_lost_with_their_leader(nodes, links, watcher, topic):
    assert isinstance(nodes, SeparateCluster)
    leader = watcher.leader(topic)
    subprocess.run(
        tailrace("produce", f"{topic}/0", "--bootstrap", nodes.bootstrap), input=b"kept\n", check=True, timeout=60
    )
    with replication_stopped(nodes, leader):
        alone = produce_alone(nodes.bootstrap, topic, 5)
        assert values(nodes, f"{topic}/0") == [b"kept"]
        command = tailrace("consume", f"{topic}/0", "--bootstrap", nodes.bootstrap, "--uncommitted", "--output", "json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        shown = {each["value"]: each["committed"] for each in map(json.loads, done.stdout.splitlines())}
        nodes.kill_node(leader)
    assert shown == {"kept": True} | {value.decode(): False for value in alone}
    assert "may be lost" in done.stderr
    watcher.leader_other_than(leader, topic)
    assert values(nodes, f"{topic}/0") == [b"kept"]
