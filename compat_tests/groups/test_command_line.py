"""`tailrace group` as a process, on groups of stock clients; all commands but `explain` also run on Apache Kafka."""

import json
import signal
import subprocess

import pytest
from brokers import is_apache_kafka
from cluster import run_to_end, tailrace, tailrace_output
from waiting import wait_until

from .members import ONE_OF_EACH_CLIENT, PATIENCE_SECONDS, wait_until_shared

PARTITIONS = 3
KAFKA_PYTHON, _, CONFLUENT, CONSUMER_PROTOCOL = ONE_OF_EACH_CLIENT


@pytest.fixture
def topic(create_topic):
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def places(topic):
    return {(topic, partition) for partition in range(PARTITIONS)}


@pytest.fixture
def run(bootstrap):
    """Returns a function that runs `tailrace group`, and returns its exit status and output."""
    return lambda *words: run_to_end(tailrace("group", *words, "--bootstrap", bootstrap))


@pytest.fixture
def shown(bootstrap):
    """Returns a function that runs `tailrace group`, and returns its JSON output."""
    return lambda *words: json.loads(tailrace_output("group", *words, "--bootstrap", bootstrap))


@pytest.fixture
def ours(request):
    if is_apache_kafka(request):
        pytest.skip("only Tailrace explains groups")


def read_to_the_end(member, topic, fill, count=10):
    fill(topic, count, PARTITIONS)
    all_of_it = {(topic, partition): count for partition in range(PARTITIONS)}
    wait_until(lambda: member.committed == all_of_it, PATIENCE_SECONDS, "everything is committed")


def values_of(topic, number, member):
    """Returns what the member has read of one partition, as `fill` made it."""
    return [value for value in member.values if value.startswith(f"{topic}-{number}-")]


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_a_group_is_described_as_its_members_see_it(flavour, topic, places, group, start_member, fill, shown):
    members = [start_member(flavour, topic, name=name) for name in ("one", "two")]
    wait_until_shared(members, places)
    kind = "consumer" if flavour is CONSUMER_PROTOCOL else "classic"

    def is_settled():
        (described,) = shown("describe", group)
        return described["state"] == "Stable" and len(described["members"]) == 2

    wait_until(is_settled, PATIENCE_SECONDS, "the group is stable")
    (listed,) = [each for each in shown("list", "--state", "Stable", "--type", kind) if each["group"] == group]
    assert (listed["type"], listed["protocol"], listed["members"]) == (kind, "consumer", 2)
    (described,) = shown("describe", group)
    assert described["assignor"] == flavour.assignor
    owned = {each["clientId"]: each["owns"] for each in described["members"]}
    assert owned == {each.name: sorted(f"{topic}/{number}" for _, number in each.assigned) for each in members}
    assert {each["host"] for each in described["members"]} == {"/127.0.0.1"}


def test_what_a_member_has_not_read_yet_is_its_lag(topic, group, start_member, fill, shown):
    member = start_member(KAFKA_PYTHON, topic)
    read_to_the_end(member, topic, fill)
    (described,) = shown("describe", group)
    assert (described["lag"], {each["lagSeconds"] for each in described["partitions"]}) == (0, {0})
    member.leave()
    fill(topic, 7, PARTITIONS)
    (described,) = shown("describe", group)
    assert (described["state"], described["lag"], described["members"]) == ("Empty", 21, [])
    assert [(each["committed"], each["logEnd"], each["lag"]) for each in described["partitions"]] == [(10, 17, 7)] * 3
    assert all(0 <= each["lagSeconds"] < PATIENCE_SECONDS for each in described["partitions"])


@pytest.mark.parametrize("flavour", [KAFKA_PYTHON, CONFLUENT, CONSUMER_PROTOCOL], ids=str)
def test_a_group_continues_where_it_was_reset_to(flavour, topic, group, start_member, fill, run, shown):
    member = start_member(flavour, topic)
    read_to_the_end(member, topic, fill)
    words = ("reset-offsets", group, "--topic", f"{topic}:0,1", "--shift-by", "-4")
    status, said = run(*words, "--execute")
    assert status == 1
    assert f"group {group} has members that would overwrite the offsets: stop " in said
    assert f"{member.name} at 127.0.0.1) first" in said
    member.leave()
    wait_until(lambda: shown("describe", group)[0]["state"] == "Empty", PATIENCE_SECONDS, "the member has left")
    moves = [(each["before"], each["offset"], each["lagAfter"]) for each in shown(*words)["partitions"]]
    assert moves == [(10, 6, 4), (10, 6, 4)]
    status, said = run(*words, "--execute")
    assert status == 0, said
    successor = start_member(flavour, topic)
    again = [value for number in "01" for value in values_of(topic, number, member)[-4:]]
    wait_until(lambda: sorted(successor.values) == sorted(again), PATIENCE_SECONDS, "the last four are read again")


def test_a_watch_shows_the_progress_of_a_group(bootstrap, topic, group, start_member, fill):
    member = start_member(KAFKA_PYTHON, topic)
    read_to_the_end(member, topic, fill, count=1)
    command = tailrace("group", "describe", group, "--watch", "0.1", "--bootstrap", bootstrap, "--output", "json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:

        def committed():
            (described,) = json.loads(watching.stdout.readline())
            return {each["committed"] for each in described["partitions"]}

        assert committed() == {1}
        fill(topic, 4, PARTITIONS)
        while committed() != {5}:
            pass
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=20)
    assert (watching.returncode, said) == (0, "")


def test_a_backup_brings_all_offsets_back(tmp_path, topic, group, start_member, fill, run, shown):
    member = start_member(KAFKA_PYTHON, topic)
    read_to_the_end(member, topic, fill)
    member.leave()
    path = tmp_path / "backup.json"
    path.write_text(json.dumps(shown("describe", group)))
    assert run("delete", group) == (0, f"deleted group {group}\n")
    status, said = run("describe", group)
    assert (status, said) == (1, f"tailrace group describe: there is no group {group}\n")
    status, said = run("reset-offsets", group, "--from-file", str(path), "--execute")
    assert status == 0, said
    (described,) = shown("describe", group)
    assert [each["committed"] for each in described["partitions"]] == [10, 10, 10]


def test_the_first_record_after_a_time_is_found(topic, group, fill, shown):
    fill(topic, 5, 1)
    words = ("reset-offsets", group, "--topic", f"{topic}:0")
    (move,) = shown(*words, "--by-duration", "1h")["partitions"]
    assert (move["before"], move["offset"]) == (None, 0)
    (move,) = shown(*words, "--to-datetime", "2100-01-01")["partitions"]
    assert (move["offset"], move["note"]) == (5, "all records are older")
    (move,) = shown(*words, "--to-offset", "9")["partitions"]
    assert (move["offset"], move["note"]) == (5, "9 is beyond the log end, 5")


def test_explain_names_the_member_that_blocks_a_group(ours, topic, places, group, start_member, run, shown):
    quick, slow = (start_member(KAFKA_PYTHON, topic, name=name, max_poll_ms=20_000) for name in ("quick", "slow"))
    wait_until_shared([quick, slow], places)
    slow.rest()
    start_member(KAFKA_PYTHON, topic, name="new", max_poll_ms=20_000)

    now = ""

    def is_waited_for():
        nonlocal now
        now = " ".join(shown("explain", group)["now"])
        return "It waits for slow-" in now

    wait_until(is_waited_for, PATIENCE_SECONDS, "the group waits for the member that does not poll")
    assert "max.poll.interval.ms: 20 s" in now
    wait_until(lambda: shown("explain", group)["state"] == "Stable", PATIENCE_SECONDS, "the others go on")
    explained = shown("explain", group)
    departures = [each for rebalance in explained["rebalances"] for each in rebalance["departures"]]
    assert [each["clientId"] for each in departures] == ["slow"]
    slow_id = departures[0]["memberId"]
    status, said = run("explain", group)
    assert status == 0
    assert f"All other members waited for {slow_id} (slow at 127.0.0.1) for " in said
