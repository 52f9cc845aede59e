"""Tests of how classic groups take the place of other groups."""

import pytest
from consumer_stories import GROUP, ClassicConsumer, Consumer, classic_group, kind_of, settle_all
from grouping import GroupWorld

from tailrace.protocol.error_codes import ErrorCode


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    world.put_topic("a", 6)
    world.put_topic("b", 4)
    return world


def test_when_the_last_consumer_member_leaves_the_group_is_classic_again(world: GroupWorld) -> None:
    old = classic_group(world, 2)
    new = Consumer(world, "new")
    new.join()
    settle_all([*old, new])
    new.leave()
    assert kind_of(world) == "classic"
    assert world.coordinator.groups[GROUP].state == "PreparingRebalance"
    settle_all(old)
    assert sorted(len(consumer.owned) for consumer in old) == [3, 3]
    assert world.coordinator.groups[GROUP].state == "Stable"


def test_the_first_member_decides_the_kind_of_an_empty_group(world: GroupWorld) -> None:
    (old,) = classic_group(world)
    old.leave()
    new = Consumer(world, "new")
    new.join()
    assert kind_of(world) == "consumer"
    assert len(new.owned) == 6
    new.leave()
    old = ClassicConsumer(world)
    settle_all([old])
    assert kind_of(world) == "classic"
    world.restart()
    assert kind_of(world) == "classic"


def test_when_an_instance_returns_with_the_classic_protocol_all_join_again(world: GroupWorld) -> None:
    old = ClassicConsumer(world)
    new = Consumer(world, "new", instance_id="i")
    new.join()
    settle_all([new, old])
    back = ClassicConsumer(world, instance_id="i")
    back.go_on()
    assert kind_of(world) == "classic"
    world.restart()
    asked = old.ask_beat()
    assert asked.reply is not None
    assert asked.reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    settle_all([old, back])
