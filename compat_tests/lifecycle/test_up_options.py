"""`tailrace up --topic` and `--ephemeral`: topics that exist at the ready line, and data that is removed at the end."""

import os
from pathlib import Path

import pytest
from cluster import FREE_PORTS, READY_LINE, Server, run_to_end, tailrace
from confluent_kafka.admin import AdminClient

UP = tailrace("up", "--public", "127.0.0.1:0", *FREE_PORTS, "--metrics", "off")


def _partitions(bootstrap):
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def test_topics_exist_at_the_ready_line_and_are_left_alone_later(tmp_path):
    server = Server(tmp_path, "up", READY_LINE)
    data = ["--data", str(tmp_path / "data")]
    try:
        ready = server.start([*UP, *data, "--topic", "orders:6:1", "--topic", "payments", "--set", "num.partitions=2"])
        assert _partitions(ready[1]) == {"orders": 6, "payments": 2}
        server.stop()
        ready = server.start([*UP, *data, "--topic", "orders:3", "--topic", "parcels"])
        assert _partitions(ready[1]) == {"orders": 6, "payments": 2, "parcels": 1}
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("topic", "status", "reason"),
    [
        ("orders:six", 2, "--topic orders:six: 'six' is not a number of partitions"),
        ("orders:1:3", 1, "--topic orders: "),
    ],
)
def test_an_impossible_topic_ends_the_start_with_its_reason(topic, status, reason, tmp_path):
    ended, output = run_to_end([*UP, "--data", str(tmp_path), "--topic", topic])
    assert ended == status
    assert output.splitlines()[-1].startswith(f"tailrace up: {reason}")


def test_a_broker_config_can_be_an_environment_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("TAILRACE_BROKER_NUM_PARTITIONS", "3")
    monkeypatch.setenv("TAILRACE_TOPIC", "orders,payments:2")
    monkeypatch.setenv("TAILRACE_EPHEMERAL", "true")
    monkeypatch.setenv("TAILRACE_PUBLC", "127.0.0.1:9")
    server = Server(tmp_path, "up", READY_LINE)
    try:
        ready = server.start([*UP, "--data", str(tmp_path)])
        assert _partitions(ready[1]) == {"orders": 3, "payments": 2}
        said = "tailrace up: TAILRACE_PUBLC: there is no such setting; did you mean TAILRACE_PUBLIC?"
        assert said in server.errors().splitlines()
    finally:
        server.stop()
    monkeypatch.setenv("TAILRACE_BROKER_NUM_PARTITONS", "4")
    status, output = run_to_end([*UP, "--data", str(tmp_path)])
    assert (status, output) == (
        2,
        "tailrace up: TAILRACE_BROKER_NUM_PARTITONS: there is no such broker config; "
        "did you mean TAILRACE_BROKER_NUM_PARTITIONS?\n",
    )


def test_nothing_is_left_of_an_ephemeral_cluster(tmp_path):
    """A normal stop removes the data. After a kill, the next start removes it."""
    parent = tmp_path / "parent"
    command = [*UP, "--ephemeral", "--data", str(parent), "--topic", "orders:6", "--spus", "2"]
    killed, server = Server(tmp_path, "killed", READY_LINE), Server(tmp_path, "up", READY_LINE)
    try:
        data = Path(killed.start(command)[3])
        assert data.parent == parent
        assert (data / "spu-2").is_dir()
        killed.kill()
        assert data.exists()
        ready = server.start(command)
        assert not data.exists()
        assert _partitions(ready[1]) == {"orders": 6}
        assert server.stop() == 0
        assert os.listdir(parent) == []
    finally:
        killed.kill()
        server.kill()
