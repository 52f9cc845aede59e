"""Tests that overdue members of consumer groups are removed."""

from collections.abc import Callable
from typing import Any

import pytest
from consumer_stories import Consumer, settle
from grouping import GroupWorld

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
