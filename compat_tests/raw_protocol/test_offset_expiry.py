"""Offsets that old clients commit with a retention time expire then, unless a member needs them."""

import pytest
from brokers import private_broker
from raw import connect
from raw_groups import NONE, Member
from raw_offsets import Committed, Fetched, commit, fetch
from topics import topic_creator
from waiting import wait_until

SETTINGS = {"offsets.retention.check.interval.ms": "200", "offsets.retention.minutes": "1"}
SAYS_RETENTION = 4
CHECKS_SECONDS_MAX = 20
SESSION_MS = 60_000
"""Longer than a test waits, because members send no heartbeats meanwhile."""


@pytest.fixture(scope="module")
def bootstrap(request, tmp_path_factory):
    """Yields the address of a broker that often looks for expired offsets."""
    with private_broker(request, tmp_path_factory.mktemp("broker"), SETTINGS) as broker:
        yield broker.bootstrap


@pytest.fixture
def create_topic(request, bootstrap):
    return topic_creator(bootstrap, request.node.name)


def commit_for(connection, group, topic, milliseconds, **who):
    errors = commit(connection, SAYS_RETENTION, group, {(topic, 0): Committed(5)}, retention_ms=milliseconds, **who)
    assert errors == {(topic, 0): NONE}


def wait_until_left(connection, group, *topics):
    expected = {(topic, 0): Fetched(5) for topic in topics}
    seen: list[object] = ["the offsets were in turn"]

    def are_left() -> bool:
        offsets = fetch(connection, 9, group, None).offsets
        if offsets not in seen[-1:]:
            seen.append(offsets)
        return offsets == expected

    wait_until(are_left, seconds=CHECKS_SECONDS_MAX, what=seen)


def test_an_offset_expires_and_its_group_with_the_last_one(connection, create_topic, group):
    soon, later = create_topic(), create_topic()
    commit_for(connection, group, later, 10_000)
    commit_for(connection, group, soon, 1)
    wait_until_left(connection, group, later)
    assert Member(connection, group).describe().state == "Empty"
    wait_until_left(connection, group)
    wait_until(lambda: Member(connection, group).describe().state == "Dead", seconds=CHECKS_SECONDS_MAX)


def test_members_keep_the_offsets_of_what_they_read(connection, bootstrap, create_topic, group):
    read, other = create_topic(), create_topic()
    metadata = bytes(2) + (1).to_bytes(4) + len(read).to_bytes(2) + read.encode() + b"\xff\xff\xff\xff"
    with connect(bootstrap) as own:
        member = Member(own, group, protocols=[("range", metadata)], session_ms=SESSION_MS)
        assert member.join().error == NONE
        member.sync({member.member_id: b"all of it"})
        who = {"generation": member.generation, "member_id": member.member_id}
        commit_for(connection, group, read, 1, **who)
        commit_for(connection, group, other, 1, **who)
        wait_until_left(connection, group, read)
        assert member.heartbeat() == NONE
        member.leave()
    wait_until_left(connection, group)


def test_a_group_without_members_and_offsets_is_deleted(connection, bootstrap, create_topic, group):
    with connect(bootstrap) as own:
        member = Member(own, group, protocol_type="connect", session_ms=SESSION_MS)
        assert member.join().error == NONE
        member.sync({member.member_id: b"all of it"})
        commit_for(connection, group, create_topic(), 1, generation=member.generation, member_id=member.member_id)
        assert member.describe().state == "Stable"
        member.leave()
    wait_until(lambda: Member(connection, group).describe().state == "Dead", seconds=CHECKS_SECONDS_MAX)
    assert fetch(connection, 9, group, None).offsets == {}
