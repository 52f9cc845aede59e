"""Tests of target assignments that are made in steps while the group changes."""

from random import Random
from uuid import UUID

import pytest
from consumer_stories import Consumer, describe, group_in, settle
from grouping import GroupWorld

from tailrace.broker.groups.assignment.assignment_steps import Steps
from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition
from tailrace.broker.groups.consumer import consumer_change
from tailrace.broker.groups.consumer.target_making import ChangedTargets, TargetMaking
from tailrace.broker.groups.coordinator import consumer_groups
from tailrace.protocol.error_codes import ErrorCode


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    monkeypatch.setattr(consumer_change, "SMALL_MAX", 0)
    monkeypatch.setattr(consumer_groups, "ITEMS_PER_TURN", 1)
    world = GroupWorld()
    world.put_topic("a", 6)
    return world


def let_interval_pass(world: GroupWorld) -> None:
    """Lets the assignment interval pass, but gives the coordinator no turn."""
    world.now += 1.0
    world.now_ms += 1_000


def begin(world: GroupWorld, member: Consumer) -> None:
    let_interval_pass(world)
    member.beat()
    assert group_in(world).making is not None


def numbers(targets: Partitions) -> list[int]:
    return sorted(partition.partition for partition in targets)


def test_many_turns_lead_to_one_target_assignment(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    n.join()
    begin(world, n)
    written, turns = len(world.log), 0
    while group_in(world).making is not None:
        assert len(world.log) == written, "all targets are written at the end"
        assert describe(world).group_state == "Assigning"
        world.take_a_turn()
        turns += 1
    assert turns > 10
    assert (group_in(world).target_epoch, group_in(world).epoch) == (3, 3)
    assert {member_id: numbers(target) for member_id, target in group_in(world).targets.items()} == {
        "m": [0, 1, 2],
        "n": [3, 4, 5],
    }
    settle([m, n])
    assert describe(world).group_state == "Stable"


def test_the_first_target_assignment_is_made_at_once(world: GroupWorld) -> None:
    m = Consumer(world, "m")
    m.join()
    assert (m.epoch, len(m.owned)) == (2, 6)
    world.put_topic("a", 7)
    world.now_ms += 1_000
    m.beat()
    assert (m.epoch, len(m.owned)) == (3, 7), "a group with one member needs no turns either"


def test_joins_without_end_do_not_hold_it_up(world: GroupWorld) -> None:
    members = [Consumer(world, f"m{number:03}") for number in range(300)]
    for member in members[:3]:
        member.join()
    begin(world, members[2])
    rest = iter(members[3:])
    while group_in(world).making is not None:
        next(rest).join()
        world.take_a_turn()
    assert group_in(world).target_epoch == 4
    assert [len(group_in(world).targets[f"m{number:03}"]) for number in range(3)] == [2, 2, 2]
    world.pass_time(1.0)
    members[2].beat()
    world.pass_time(0)
    assert group_in(world).target_epoch == group_in(world).epoch > 4


def test_a_member_that_left_meanwhile_gets_no_target(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    n.join()
    begin(world, m)
    n.leave()
    world.pass_time(0)
    assert group_in(world).targets.keys() == {"m"}
    assert (group_in(world).target_epoch, group_in(world).epoch) == (3, 4)
    world.pass_time(1.0)
    m.beat()
    assert numbers(group_in(world).targets["m"]) == [0, 1, 2, 3, 4, 5]


def test_a_group_that_is_empty_at_the_end_gets_no_targets(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    n.join()
    begin(world, m)
    n.leave()
    m.leave()
    written = len(world.log)
    world.pass_time(0)
    assert group_in(world).making is None
    assert len(world.log) == written


def test_a_new_member_id_of_a_static_member_gets_its_target(world: GroupWorld) -> None:
    m, n = Consumer(world, "m", instance_id="i"), Consumer(world, "n")
    m.join()
    n.join()
    begin(world, n)
    m.leave(-2)
    second = Consumer(world, "m2", instance_id="i")
    second.join()
    second.leave(-2)
    Consumer(world, "m3", instance_id="i").join()
    Consumer(world, "m2", instance_id="j").join()
    world.pass_time(0)
    assert {member_id: numbers(target) for member_id, target in group_in(world).targets.items()} == {
        "m3": [0, 1, 2],
        "n": [3, 4, 5],
    }


def test_a_member_with_the_old_id_of_a_static_member_does_not_take_its_place() -> None:
    target = frozenset({TopicPartition(UUID(int=1), 0)})
    making = TargetMaking(1, {"m"}, _steps([("m", target)]))
    making.on_replaced("m", "m2")
    making.on_replaced("m", "another")
    making.on_replaced("m2", "m3")
    making.on_replaced("m2", "another")
    making.on_replaced("late", "m")
    making.on_replaced("m", "another")
    assert making.go_on(10) == 1
    assert making.is_finished
    assert making.changed_targets() == [("m3", target)]


def test_the_history_tells_which_rebalance_a_change_belongs_to(world: GroupWorld) -> None:
    m, n, late = Consumer(world, "m"), Consumer(world, "n"), Consumer(world, "late")
    m.join()
    n.join()
    begin(world, n)
    late.join()
    assert [each.cause for each in group_in(world).rebalances] == ["m joined", "n joined"]
    world.pass_time(0)
    assert [(each.cause, each.generation) for each in group_in(world).rebalances] == [
        ("m joined", 2),
        ("n joined", 3),
        ("late joined", None),
    ]
    world.pass_time(1.0)
    late.beat()
    world.pass_time(0)
    assert group_in(world).rebalances[-1].generation == 4


def test_another_coordinator_makes_the_targets_that_are_not_finished(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    n.join()
    begin(world, n)
    world.restart()
    assert group_in(world).making is None
    n.beat()
    world.pass_time(0)
    assert group_in(world).target_epoch == group_in(world).epoch == 3


@pytest.mark.parametrize("seed", range(60))
def test_no_partition_is_in_two_targets(seed: int, world: GroupWorld) -> None:
    """Lets members with and without instance ids come and go, under few member ids, between the steps."""
    random = Random(seed)
    world.put_topic("b", 2)
    present: dict[str, Consumer] = {}
    for _ in range(150):
        match random.randrange(6):
            case 0 | 1:
                member = Consumer(
                    world,
                    random.choice("stuvwxyz"),
                    random.choice([("a",), ("a", "b")]),
                    instance_id=random.choice([None, "i", "j", "k"]),
                )
                if _joins(member):
                    present[member.member_id] = member
            case 2 if present:
                member = present.pop(random.choice(sorted(present)))
                member.ask(member_epoch=-1 if member.instance_id is None or random.random() < 0.3 else -2)
            case 3 if present:
                let_interval_pass(world)
                present[random.choice(sorted(present))].ask()
            case _:
                for _ in range(random.choice([1, 10, 50])):
                    world.take_a_turn()
        group = world.coordinator.groups.get("g")
        if group is None:
            continue
        targets = group_in(world).targets
        assert targets.keys() <= group_in(world).members.keys()
        assert sum(map(len, targets.values())) == len(frozenset[TopicPartition]().union(*targets.values()))


def _steps(changed: ChangedTargets) -> Steps[ChangedTargets]:
    yield 1
    return changed


def _joins(member: Consumer) -> bool:
    asked = member.ask(
        member_epoch=0,
        rebalance_timeout_ms=600_000,
        subscribed_topic_names=list(member.topics or ()),
        topic_partitions=[],
    )
    assert asked.error is None or asked.error.code in (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ), asked.error
    if asked.reply is not None:
        member.epoch = asked.reply.member_epoch
    return asked.error is None
