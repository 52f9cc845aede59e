"""What the command line shows of leader epochs, replicas, and an election in progress; only for Tailrace."""

import json
import signal
import struct
import subprocess

import pytest
from cluster import tailrace
from raw import connect, string
from spu_cluster import SeparateCluster
from waiting import wait_until

PARTITIONS = 3
OFFSET_FOR_LEADER_EPOCH = 23


@pytest.fixture(autouse=True)
def ours(nodes):
    if not isinstance(nodes, SeparateCluster):
        pytest.skip("only Tailrace has an SC")


def shown(nodes, *words):
    done = subprocess.run(
        tailrace(*words, "--sc", nodes.sc, "--output", "json"), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def produce(nodes, topic, count):
    command = tailrace("produce", f"{topic}/0", "--sc", nodes.sc)
    subprocess.run(command, input=b"line\n" * count, check=True, capture_output=True, timeout=60)


def end_of_epoch(nodes, topic, epoch):
    """Asks the leader of partition 0, as any client does, where the epoch ends."""
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">iiii", 1, 0, -1, epoch)
    for address in nodes.bootstrap.split(","):
        with connect(address) as connection:
            answer = connection.call(OFFSET_FOR_LEADER_EPOCH, 2, body)
        error, _, _, end = struct.unpack(">hiiq", answer[-18:])
        if not error:
            return end
    raise AssertionError("the partition has no leader")


def test_each_leader_has_an_epoch_and_all_logs_agree_where_it_began(nodes, watcher, topic):
    produce(nodes, topic, 10)
    first = watcher.leader(topic)
    nodes.kill_node(first)
    second = watcher.leader_other_than(first, topic)
    produce(nodes, topic, 5)
    nodes.start_node(first)
    watcher.wait_until_in_sync(topic)

    def described():
        (partition,) = shown(nodes, "partition", "describe", f"{topic}/0")
        return partition

    def agree():
        return all(len(each["replicas"]) == 3 for each in described()["epochs"])

    wait_until(agree, 30, "all replicas know all epochs")
    partition = described()
    assert partition["leader"] == second
    epochs = partition["epochs"]
    assert len(epochs) == 2
    assert (epochs[0]["begin"], epochs[-1]["end"], epochs[-1]["epoch"]) == (0, partition["logEnd"], partition["epoch"])
    assert epochs[1]["begin"] == epochs[0]["end"] >= 10
    assert all({own["begin"] for own in each["replicas"]} == {each["begin"]} for each in epochs)
    assert all(end_of_epoch(nodes, topic, each["epoch"]) == each["end"] for each in epochs)


def test_each_spu_reports_the_replicas_that_it_holds(nodes, watcher, topic):
    produce(nodes, topic, 10)
    watcher.wait_until_in_sync(topic)

    def ends(replicas):
        return {(each["partition"], each["logEnd"], each["highWatermark"], each["lag"]) for each in replicas}

    def is_quiet():
        return ends(shown(nodes, "replica", "list", topic)) == {(0, 10, 10, 0), (1, 0, 0, 0), (2, 0, 0, 0)}

    wait_until(is_quiet, 30, "all replicas have everything, and know that it is committed")
    replicas = shown(nodes, "replica", "list", topic)
    assert [each["spuId"] for each in replicas] == [spu for spu in nodes.ids for _ in range(PARTITIONS)]
    assert all(each["isLive"] and each["error"] is None for each in replicas)
    leaders = {each["partition"]: each["spuId"] for each in replicas if each["role"] == "leader"}
    assert leaders == {number: watcher.leader(topic, number) for number in range(PARTITIONS)}
    mine = shown(nodes, "replica", "list", topic, "--spu", "2")
    assert mine == [each for each in replicas if each["spuId"] == 2]


def test_a_watch_shows_the_new_leader_and_each_status_before_it(nodes, watcher, topic):
    """The watch shows the election, although it lasts only a fraction of the second between two polls."""
    first = watcher.leader(topic)
    passed = []
    words = ("partition", "list", topic, "--watch", "--sc", nodes.sc, "--output", "json")
    with subprocess.Popen(tailrace(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:

        def leader():
            """Returns the leader of partition 0 from the next change after which it has one."""
            partition = json.loads(watching.stdout.readline())[0]
            passed.extend(each["resolution"] for each in partition.get("statusChanges", ()))
            return partition["leader"] if partition["resolution"] == "Online" else None

        assert leader() == first
        nodes.kill_node(first)
        while leader() in (first, None):
            pass
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=20)
    assert (watching.returncode, said) == (0, "")
    assert (passed[0], passed[-1]) == ("Election", "Online")
    assert "CandidateFound" in passed
