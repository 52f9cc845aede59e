"""`tailrace group` if several SPUs coordinate groups, and one of them is killed."""

import json
import subprocess

from cluster import tailrace
from confluent_kafka import Producer
from spu_cluster import cli

GROUPS = [f"group-{number}" for number in range(9)]


def shown(sc, *words):
    """Returns the JSON that the command prints; it finds the groups through the SC."""
    command = tailrace("group", *words, "--sc", sc, "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_groups_of_all_coordinators_are_shown_even_after_one_was_killed(separate, name):
    separate.start()
    status, said = cli(separate.sc, "topic", "create", name, "--replication-factor", "3", "--wait", "20")
    assert status == 0, said
    producer = Producer({"bootstrap.servers": separate.bootstrap})
    for _ in range(10):
        producer.produce(name, b"v")
    assert producer.flush(20) == 0
    for number, group in enumerate(GROUPS):
        # The first command has to wait until the internal topic of groups exists.
        words = (group, "--topic", name, "--to-offset", f"{number}", "--execute")
        assert shown(separate.sc, "reset-offsets", *words)["executed"]

    listed = shown(separate.sc, "list")
    assert [each["group"] for each in listed] == GROUPS
    coordinators = {each["coordinator"] for each in listed}
    assert len(coordinators) > 1

    dead = listed[0]["coordinator"]
    separate.kill_node(dead)
    described = shown(separate.sc, "describe", *GROUPS)
    assert [each["lag"] for each in described] == [10 - number for number in range(len(GROUPS))]
    assert dead not in {each["coordinator"] for each in described}
    explained = shown(separate.sc, "explain", GROUPS[0])
    assert explained["now"][0] == "The group has no members."
    assert explained["coordinator"]["epoch"] > 0
    moved = shown(separate.sc, "reset-offsets", GROUPS[0], "--topic", name, "--to-latest", "--execute")
    assert [each["lagAfter"] for each in moved["partitions"]] == [0]
    assert [each["group"] for each in shown(separate.sc, "delete", *GROUPS)] == GROUPS
    assert shown(separate.sc, "list") == []
