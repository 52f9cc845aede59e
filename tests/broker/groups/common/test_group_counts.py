"""Tests that request handlers and groups of all coordinators count."""

import pytest
from classic_groups import stable_group
from committing import commit, delete
from consumer_stories import Consumer, settle
from grouping import GroupWorld
from msgspec.structs import fields

from tailrace.broker.groups.common.group_counts import GroupCounts

WEEK_SECONDS = 7 * 24 * 3600


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)
    world.put_topic("a", 6)
    world.put_topic("orders", 6)
    world.restart()
    return world


def counts(world: GroupWorld) -> GroupCounts:
    return world.coordinator.output.counts


def test_nothing_has_been_counted_at_the_start(world: GroupWorld) -> None:
    assert not any(getattr(counts(world), each.name) for each in fields(GroupCounts))


def test_each_assignment_of_a_group_is_one_rebalance(world: GroupWorld) -> None:
    stable_group(world, 3)
    assert counts(world).group_rebalances == 1
    first, second = Consumer(world, "m"), Consumer(world, "n")
    first.join()
    assert counts(world).group_rebalances == 2
    second.join()
    settle([first, second])
    assert counts(world).group_rebalances == 3
    first.beat()
    assert counts(world).group_rebalances == 3


def test_committed_and_expired_offsets_are_counted(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5, ("orders", 1): 6, ("nowhere", 0): 7})
    commit(world, "h", {("orders", 0): 5})
    assert counts(world).committed_offsets == 3
    delete(world, "h", [("orders", 0)])
    assert counts(world).expired_offsets == 0
    world.pass_time(2 * WEEK_SECONDS)
    assert counts(world).expired_offsets == 2


def test_replaying_a_log_counts_nothing(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5})
    stable_group(world, 2)
    world.restart()
    assert counts(world) == GroupCounts()
