"""Tests that groups are woken once when their deadline comes, and never after they were removed."""

import math

import pytest
from grouping import GroupWorld, Sleeper


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def put(world: GroupWorld, *groups: Sleeper) -> None:
    for group in groups:
        world.coordinator.table.put(group)


def test_groups_are_woken_in_time_each_once(world: GroupWorld) -> None:
    soon, later, never = Sleeper("a", 110), Sleeper("b", 120), Sleeper("c")
    put(world, later, never, soon)
    assert world.coordinator.deadline == 110
    world.pass_time(30)
    assert (soon.woken, later.woken, never.woken) == ([110], [120], [])
    assert world.coordinator.deadline == math.inf


def test_a_group_is_woken_at_the_deadline_of_the_group_that_it_replaced(world: GroupWorld) -> None:
    replaced, new = Sleeper("a", 110), Sleeper("a", 110)
    put(world, replaced)
    put(world, new)
    world.pass_time(50)
    assert (replaced.woken, new.woken) == ([], [110])


def test_an_earlier_deadline_counts(world: GroupWorld) -> None:
    group = Sleeper("a", 150)
    put(world, group)
    group.deadline = 105
    group.next_deadline = 160
    world.coordinator.table.reschedule(group)
    world.pass_time(100)
    assert group.woken == [105, 160]


def test_removed_groups_do_not_stay_in_memory_until_their_deadlines(world: GroupWorld) -> None:
    put(world, last := Sleeper("last", 110))
    for number in range(1_000):
        put(world, gone := Sleeper(f"gone-{number}", 1_900))
        world.coordinator.table.remove(gone)
    assert len(world.coordinator.table._alarms) < 100
    world.pass_time(2_000)
    assert last.woken == [110]


def test_a_group_is_not_woken_before_a_later_deadline(world: GroupWorld) -> None:
    group = Sleeper("a", 110)
    put(world, group)
    group.deadline = 140
    world.pass_time(30)
    assert group.woken == []
    assert world.coordinator.deadline == 140


def test_a_removed_group_is_not_woken(world: GroupWorld) -> None:
    gone, replaced, new = Sleeper("a", 110), Sleeper("b", 110), Sleeper("b", 130)
    put(world, gone, replaced)
    world.coordinator.table.remove(gone)
    put(world, new)
    world.pass_time(50)
    assert (gone.woken, replaced.woken, new.woken) == ([], [], [130])


def test_a_group_with_an_immediate_new_deadline_comes_after_the_others(world: GroupWorld) -> None:
    restless, other = Sleeper("a", 110), Sleeper("b", 110)
    restless.next_deadline = 110
    put(world, restless, other)
    world.now = 110
    world.coordinator.on_deadline(world.moment)
    assert (len(restless.woken), len(other.woken)) == (1, 1)
    assert world.coordinator.deadline == 110
