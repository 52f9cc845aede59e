"""What Kafka's own tools print of a group, and how they change it."""

import itertools
import re

import pytest
from clients.java import JavaConsumer, run_tool
from waiting import wait_until

from .members import ONE_OF_EACH_CLIENT, PATIENCE_SECONDS, wait_until_shared

PARTITIONS = 3
CLASSIC, CONSUMER_PROTOCOL = ONE_OF_EACH_CLIENT[2], ONE_OF_EACH_CLIENT[3]
BOTH_KINDS = pytest.mark.parametrize("flavour", [CLASSIC, CONSUMER_PROTOCOL], ids=str)


@pytest.fixture
def topic(create_topic):
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def tool(bootstrap, group):
    """Returns a function that runs `consumer-groups`, by default for the test's group."""

    def run(*words, of=group):
        named = ("--group", of) if of else ()
        return run_tool("consumer-groups", "--bootstrap-server", bootstrap, *words, *named)

    return run


@pytest.fixture
def at_work(topic, fill, start_member):
    """Yields a function that starts a group of one member that has read 10 records of each partition."""

    def start(flavour):
        fill(topic, 10, PARTITIONS)
        member = start_member(flavour, topic, name="reader")
        wait_until_shared([member], {(topic, partition) for partition in range(PARTITIONS)})
        wait_until(
            lambda: list(member.committed.values()) == [10] * PARTITIONS, PATIENCE_SECONDS, "everything is committed"
        )
        return member

    return start


@BOTH_KINDS
def test_a_group_at_work_is_described(flavour, topic, group, tool, at_work, bootstrap):
    at_work(flavour)
    kind = "consumer" if flavour is CONSUMER_PROTOCOL else "classic"
    described = tool("--describe", "--offsets")
    for partition in range(PARTITIONS):
        words = next(line for line in described.splitlines() if re.search(rf"{topic}\s+{partition}\s", line)).split()
        assert words[0] == group
        assert words[-6:-3] == ["10", "10", "0"], "committed, end and lag"
        assert words[-3].startswith("reader") or flavour is CONSUMER_PROTOCOL
        assert words[-2:] == ["/127.0.0.1", "reader"]
    members = tool("--describe", "--members", "--verbose")
    (member,) = [line for line in members.splitlines() if line.startswith(group)]
    assert "/127.0.0.1" in member and f"{topic}:0,1,2" in member
    state = tool("--describe", "--state", "--verbose")
    (line,) = [line for line in state.splitlines() if line.startswith(group)]
    assert bootstrap in line and flavour.assignor in line and "Stable" in line
    listed = tool("--list", "--type", kind, "--state", "stable", of=None)
    assert re.search(rf"^{group}\s+{kind}\s+stable", listed, re.MULTILINE | re.IGNORECASE)
    assert "GroupNotEmptyException" in tool("--delete")


def test_an_abandoned_group_is_reset_and_deleted(topic, group, tool, at_work, tmp_path):
    at_work(CLASSIC).leave()

    def offsets():
        described = tool("--describe", "--offsets")
        found = re.findall(rf"^{group}\s+{topic}\s+(\d)\s+(?:-\s+)?(\d+)\s+10\s+(\d+)", described, re.MULTILINE)
        return {int(partition): (int(offset), int(lag)) for partition, offset, lag in found}

    tool("--reset-offsets", "--to-offset", "4", "--topic", f"{topic}:1", "--execute")
    plan = tmp_path / "plan.csv"
    plan.write_text(f'"{topic}",0,2\n"{topic}",2,7\n')
    tool("--reset-offsets", "--from-file", str(plan), "--execute")
    tool("--delete-offsets", "--topic", f"{topic}:1")
    assert offsets() == {0: (2, 8), 2: (7, 3)}
    assert "successful" in tool("--delete")
    assert "GroupIdNotFoundException" in tool("--delete")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_continues_where_it_stopped(protocol, topic, group, bootstrap, fill, librdkafka_admin):
    properties = {"group.protocol": protocol}
    values = fill(topic, 50, PARTITIONS)
    with JavaConsumer(bootstrap, topic, group, properties) as consumer:
        wait_until(lambda: set(consumer.values) == values, PATIENCE_SECONDS, "everything is read")
        consumer.leave()  # the consumer commits before it leaves
    more = fill(topic, 5, PARTITIONS)
    with JavaConsumer(bootstrap, topic, group, properties) as consumer:
        wait_until(lambda: more <= set(consumer.values), PATIENCE_SECONDS, "the consumer continues")
        assert set(consumer.values) == more
    described = librdkafka_admin.describe_consumer_groups([group], request_timeout=10)[group].result(20)
    assert described.type.name.lower() == protocol


@pytest.mark.parametrize("assignor", ["RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"])
def test_two_java_consumers_share_a_topic(assignor, topic, group, bootstrap, fill, librdkafka_admin):
    properties = {"partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{assignor}"}

    def shares():
        described = librdkafka_admin.describe_consumer_groups([group], request_timeout=10)[group].result(20)
        return sorted([each.partition for each in member.assignment.topic_partitions] for member in described.members)

    with JavaConsumer(bootstrap, topic, group, properties) as one, JavaConsumer(bootstrap, topic, group, properties):
        wait_until(lambda: sorted(map(len, shares())) == [1, 2], PATIENCE_SECONDS, "they share")
        assert sorted(itertools.chain(*shares())) == [0, 1, 2]
        one.leave()
        wait_until(lambda: list(map(len, shares())) == [3], PATIENCE_SECONDS, "the other consumer takes over")
