"""Tests that overdue members of consumer groups are removed, and that large target assignments are made in steps."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from consumer_stories import ClassicConsumer, Consumer, group_in, settle
from grouping import GroupWorld

from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.consumer import consumer_change
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.coordinator import consumer_groups
from tailrace.broker.groups.coordinator.consumer_groups import ITEMS_PER_TURN
from tailrace.protocol.error_codes import ErrorCode


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.put_topic("a", 6)
    world.put_topic("b", 4)
    return world


@pytest.fixture
def consumer(world: GroupWorld) -> Callable[..., Consumer]:
    return lambda member_id, *args, **more: Consumer(world, member_id, *args, **more)


def test_a_silent_member_is_removed(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    n.join()
    for _ in range(9):
        world.pass_time(5.0)
        n.beat()
    world.pass_time(0.1)
    assert m.error() == ErrorCode.UNKNOWN_MEMBER_ID
    n.beat()
    assert n.numbers == [0, 1, 2, 3, 4, 5]


def test_a_member_that_does_not_revoke_in_time_is_removed(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    world.pass_time(1.0)
    n.join()
    m.ask()
    for _ in range(12):
        world.pass_time(4.9)
        assert m.ask().error is None
        n.beat()
        assert not n.owned
    world.pass_time(1.3)
    assert m.error() == ErrorCode.UNKNOWN_MEMBER_ID
    n.beat()
    assert n.numbers == [0, 1, 2, 3, 4, 5]


def test_a_static_member_that_does_not_come_back_is_removed(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m", instance_id="i"), consumer("n")
    m.join()
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    m.leave(-2)
    for _ in range(10):
        world.pass_time(4.9)
        n.beat()
    assert n.numbers == [0, 1, 2, 3, 4, 5]
    assert m.error(member_epoch=3) == ErrorCode.UNKNOWN_MEMBER_ID


def _making(world: GroupWorld, group_id: str) -> bool:
    group = world.coordinator.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group.making is not None


def test_others_have_their_turn_while_a_large_group_is_assigned(world: GroupWorld, consumer: Any) -> None:
    members = [consumer(f"m{number}") for number in range(consumer_change.SMALL_MAX)]
    for member in members:
        member.join()
    world.now_ms += 1000
    members[0].beat()
    turns = 0
    while _making(world, "g"):
        assert world.coordinator.deadline == -math.inf
        world.take_a_turn()
        turns += 1
    assert turns >= 5 * len(members) // ITEMS_PER_TURN
    assert world.coordinator.deadline > world.now
    assert group_in(world).target_epoch == group_in(world).epoch == len(members) + 1


def test_groups_take_turns(world: GroupWorld, consumer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_change, "SMALL_MAX", 0)
    monkeypatch.setattr(consumer_groups, "ITEMS_PER_TURN", 3)
    for group_id in "gh":
        for member_id in "mn":
            consumer(member_id, group_id=group_id).join()
    world.now_ms += 1000
    for group_id in "gh":
        consumer("o", group_id=group_id).join()
    turns = {"g": 0, "h": 0}
    while any(_making(world, group_id) for group_id in turns):
        for group_id in turns:
            turns[group_id] += _making(world, group_id)
        world.take_a_turn()
    assert turns["g"] > 10
    assert abs(turns["g"] - turns["h"]) <= 1


def test_a_group_that_is_deleted_meanwhile_is_assigned_no_more(
    world: GroupWorld, consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_change, "SMALL_MAX", 0)
    m, n = consumer("m"), consumer("n")
    m.join()
    n.join()
    world.now_ms += 1000
    n.beat()
    assert _making(world, "g")
    m.leave()
    n.leave()
    world.ask(lambda coordinator, moment, asked: coordinator.delete("g"))
    written = len(world.log)
    world.pass_time(0)
    assert world.coordinator.deadline > world.now
    assert len(world.log) == written


def test_a_group_that_becomes_a_classic_group_is_assigned_no_more(
    world: GroupWorld, consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_change, "SMALL_MAX", 0)
    m, old = consumer("m"), ClassicConsumer(world, protocols=("range",))
    m.join()
    old.go_on()
    world.now_ms += 1000
    m.beat()
    assert _making(world, "g")
    m.leave()
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)
    written = len(world.log)
    world.pass_time(0)
    assert len(world.log) == written
