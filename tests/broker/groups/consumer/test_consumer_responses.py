"""Tests when a response has the assignment, and when the next heartbeat is due."""

import pytest
from consumer_stories import Consumer, settle
from grouping import GroupWorld


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.put_topic("a", 6)
    return world


def test_an_assignment_is_sent_once_and_in_response_to_all_fields(world: GroupWorld) -> None:
    m = Consumer(world, "m")
    assert m.join().assignment is not None
    assert m.beat().assignment is None
    assert m.beat(subscribed_topic_names=["a"]).assignment is None, "not everything"
    assert m.beat(subscribed_topic_names=["a"], rebalance_timeout_ms=60_000).assignment is not None
    assert m.beat(subscribed_topic_regex="", rebalance_timeout_ms=60_000).assignment is not None


def test_partitions_to_revoke_are_not_in_the_assignment(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    world.pass_time(1.0)
    n.join()
    told = m.beat().assignment
    assert told is not None
    assert [topic.partitions for topic in told.topic_partitions] == [[0, 1, 2]]


def test_members_of_a_group_that_has_not_settled_are_to_come_soon(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    assert m.interval_ms == 500, "others may come as well"
    world.pass_time(1.0)
    assert m.beat().heartbeat_interval_ms == 5_000
    n.join()
    assert n.interval_ms == 500
    settle([m, n])
    world.pass_time(1.0)
    assert (m.beat().heartbeat_interval_ms, n.beat().heartbeat_interval_ms) == (5_000, 5_000)


def test_a_clock_that_was_put_back_does_not_make_members_come_soon_until_it_is_there_again(world: GroupWorld) -> None:
    m = Consumer(world, "m")
    m.join()
    world.now_ms -= 3_600_000
    assert m.beat().heartbeat_interval_ms == 5_000


def test_many_members_are_to_come_less_soon(world: GroupWorld) -> None:
    members = [Consumer(world, f"m{number}") for number in range(40)]
    for member in members:
        member.join()
    assert members[-1].interval_ms == 800


def test_no_interval_is_longer_than_configured(world: GroupWorld) -> None:
    world.use(consumer_heartbeat_interval_ms=300)
    m = Consumer(world, "m")
    assert m.join().heartbeat_interval_ms == 300
