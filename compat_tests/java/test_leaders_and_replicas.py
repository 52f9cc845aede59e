"""Apache Kafka's tools move replicas and elect leaders on a cluster of three SPUs."""

import json
import uuid

import pytest
from clients.java import ToolFailed, run_tool
from spu_cluster import PATIENCE, ManagedCluster
from waiting import wait_until


@pytest.fixture
def cluster(tmp_path):
    cluster = ManagedCluster(tmp_path, spus=3, options=PATIENCE)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def test_replicas_are_moved_and_preferred_leaders_elected(cluster, tmp_path):
    name = f"java-{uuid.uuid4().hex[:8]}"

    def tool(kind, *arguments, **more):
        return run_tool(kind, "--bootstrap-server", cluster.bootstrap, *arguments, **more)

    tool("topics", "--create", "--topic", name, "--replica-assignment", "1:2,3:1")
    tool("console-producer", "--topic", name, "--producer-property", "acks=all", standard_input="a\nb\nc\n")

    wanted = [
        {"topic": name, "partition": 0, "replicas": [3, 2]},
        {"topic": name, "partition": 1, "replicas": [1, 3]},
    ]
    file = tmp_path / "wanted.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    given = ("--reassignment-json-file", str(file))
    assert "Successfully started" in tool("reassign-partitions", *given, "--execute")
    wait_until(lambda: "No partition reassignments" in tool("reassign-partitions", "--list"), 30, "all have moved")
    verified = tool("reassign-partitions", *given, "--verify")
    assert verified.count("is completed") == 2

    described = tool("topics", "--describe", "--topic", name)
    assert "Partition: 0\tLeader: 3\tReplicas: 3,2" in described
    assert "Partition: 1\tLeader: 3\tReplicas: 1,3" in described
    elected = tool("leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert f"Successfully completed leader election (PREFERRED) for partitions {name}-1" in elected
    again = tool("leader-election", "--election-type", "preferred", "--topic", name, "--partition", "1")
    assert "already elected" in again
    unclean = tool("leader-election", "--election-type", "unclean", "--topic", name, "--partition", "0")
    assert "already elected" in unclean
    assert "Partition: 1\tLeader: 1" in tool("topics", "--describe", "--topic", name)

    ends = [line.rsplit(":", 1)[1] for line in tool("get-offsets", "--topic", name).splitlines()]
    assert sum(map(int, ends)) == 3


def test_impossible_requests_are_refused_with_a_reason(cluster, tmp_path):
    name = f"java-{uuid.uuid4().hex[:8]}"

    run_tool("topics", "--bootstrap-server", cluster.bootstrap, "--create", "--topic", name)
    file = tmp_path / "wanted.json"
    partitions = [{"topic": name, "partition": 0, "replicas": [7]}]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    with pytest.raises(ToolFailed, match="7"):
        run_tool(
            *("reassign-partitions", "--bootstrap-server", cluster.bootstrap),
            *("--reassignment-json-file", str(file), "--execute"),
        )
