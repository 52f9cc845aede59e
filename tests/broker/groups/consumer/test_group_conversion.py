"""Tests of upgrades and downgrades of groups whose members go on working."""

import pytest
from consumer_stories import GROUP, ClassicConsumer, Consumer, classic_group, describe, group_in, kind_of, settle_all
from grouping import GroupWorld

from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol
from tailrace.protocol.messages.sync_group import SyncGroupRequestAssignment


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    world.put_topic("a", 6)
    world.put_topic("b", 4)
    return world


def test_the_first_consumer_member_upgrades_the_group(world: GroupWorld) -> None:
    old = classic_group(world, 2)
    had = [consumer.owned for consumer in old]
    generation = old[0].generation
    new = Consumer(world, "new")
    new.join()
    assert kind_of(world) == "consumer"
    assert [consumer.owned for consumer in old] == had, "they work on"
    assert old[0].ask_beat().reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    settle_all([*old, new])
    assert sorted(len(consumer.owned) for consumer in (*old, new)) == [2, 2, 2]
    assert group_in(world).epoch == generation + 1
    types = {member.member_id: member.member_type for member in describe(world).members}
    assert types == {old[0].member_id: 0, old[1].member_id: 0, "new": 1}
    assert describe(world).group_state == "Stable"


def test_a_group_of_either_kind_survives_its_coordinator(world: GroupWorld) -> None:
    old = classic_group(world, 2)
    new = Consumer(world, "new")
    new.join()
    for compacted in (False, True):
        before = describe(world)
        if compacted:
            world.compact()
        world.restart()
        assert describe(world) == before
    settle_all([*old, new])
    new.leave()
    world.compact()
    world.restart()
    assert kind_of(world) == "classic"
    settle_all(old)


def test_members_that_wait_in_a_rebalance_join_the_new_group(world: GroupWorld) -> None:
    first, second = classic_group(world, 2)
    third = ClassicConsumer(world)
    third.go_on()
    assert third.waiting is not None
    assert third.waiting.is_waiting
    new = Consumer(world, "new")
    new.join()
    assert third.waiting.reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    settle_all([first, second, third, new])


def test_a_member_without_an_id_learns_the_one_that_it_has_in_the_new_group(world: GroupWorld) -> None:
    """Otherwise it would join as another member, and its partitions would wait for the end of a session."""
    first, old = classic_group(world)[0], ClassicConsumer(world, join_version=3)
    old.go_on()
    new = Consumer(world, "new")
    new.join()
    assert old.waiting is not None
    assert old.waiting.reply.member_id in group_in(world).members
    settle_all([first, old, new])
    assert len(group_in(world).members) == 3


def test_rolling_from_the_old_protocol_to_the_new_one_and_back(world: GroupWorld) -> None:
    consumers: list[ClassicConsumer | Consumer] = [*classic_group(world, 3)]
    for place in range(3):
        before = consumers[place]
        assert isinstance(before, ClassicConsumer)
        assert before.leave() == ErrorCode.NONE
        consumers[place] = new = Consumer(world, f"new-{place}")
        new.join()
        settle_all(consumers)
        assert kind_of(world) == "consumer"
    for place in range(3):
        after = consumers[place]
        assert isinstance(after, Consumer)
        after.leave()
        consumers[place] = ClassicConsumer(world)
        settle_all(consumers)
    assert kind_of(world) == "classic"


def test_eager_members_revoke_everything_before_they_join(world: GroupWorld) -> None:
    eager = ClassicConsumer(world, protocols=("range",), is_cooperative=False)
    settle_all([eager])
    new = Consumer(world, "new")
    new.join()
    settle_all([eager, new])
    assert sorted((len(eager.owned), len(new.owned))) == [3, 3]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_can_keep_groups_as_they_are(world: GroupWorld, policy: str) -> None:
    old = classic_group(world)
    world.use(consumer_migration_policy=policy)
    new = Consumer(world, "new")
    written = len(world.log)
    assert (
        new.error(rebalance_timeout_ms=1, subscribed_topic_names=["a"], topic_partitions=[])
        == ErrorCode.GROUP_ID_NOT_FOUND
    )
    assert len(world.log) == written
    assert kind_of(world) == "classic"
    settle_all(old)


def test_a_policy_can_forbid_the_way_back(world: GroupWorld) -> None:
    old = classic_group(world)
    new = Consumer(world, "new")
    new.join()
    settle_all([*old, new])
    world.use(consumer_migration_policy="upgrade")
    new.leave()
    settle_all(old)
    assert kind_of(world) == "consumer"


def test_groups_whose_members_cannot_be_understood_stay_as_they_are(world: GroupWorld) -> None:
    (old,) = classic_group(world)
    join = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["a"], "topic_partitions": []}
    group = world.coordinator.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    for assignment in (b"\0", b"\0\1\0\0\0\7", b"\0\1\0\0\0\0\0\0\0\1x"):
        group.prepare("a test wants it", world.moment)
        old.waiting = old.ask_join()
        old.generation = old.waiting.reply.generation_id
        old.ask_sync([SyncGroupRequestAssignment(old.member_id, assignment)])
        assert Consumer(world, "new").error(**join) == ErrorCode.GROUP_ID_NOT_FOUND
    assert kind_of(world) == "classic"


def test_all_that_a_member_brings_has_to_be_understood(world: GroupWorld) -> None:
    """It may be told any of its protocols, also one that the classic group did not use."""
    (old,) = classic_group(world)
    protocols = {"range": old.metadata(), "cooperative-sticky": b"unreadable"}
    old.waiting = old.ask_join(protocols=[JoinGroupRequestProtocol(*each) for each in protocols.items()])
    old.go_on()
    join = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["a"], "topic_partitions": []}
    assert Consumer(world, "new").error(**join) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_whose_session_ends_was_the_last_of_the_new_protocol(world: GroupWorld) -> None:
    old = classic_group(world, 2)
    new = Consumer(world, "new")
    new.join()
    settle_all([*old, new])
    new.beat()
    for _ in range(9):
        for consumer in old:
            consumer.go_on()
        world.pass_time(4.9)
    assert kind_of(world) == "consumer"
    world.pass_time(1.0)
    assert kind_of(world) == "classic"
    settle_all(old)


def test_partitions_that_are_not_revoked_stay_with_their_member_through_both_kinds(world: GroupWorld) -> None:
    (old,) = classic_group(world)
    new = Consumer(world, "new")
    new.join()
    old.ask_beat()
    assert len(old.owned) == 6, "it was told, and has not joined again"
    new.leave()
    assert kind_of(world) == "classic"
    world.restart()
    again = Consumer(world, "again")
    again.join()
    assert kind_of(world) == "consumer"
    assert not again.owned
    settle_all([old, again])


@pytest.mark.parametrize("has_moved", [False, True], ids=["same coordinator", "another coordinator"])
def test_until_they_have_joined_again_the_members_of_a_classic_group_may_commit(
    world: GroupWorld, has_moved: bool
) -> None:
    """Otherwise they would read records again. They need not revoke their partitions."""
    (old,) = classic_group(world)
    new = Consumer(world, "new")
    new.join()
    settle_all([old, new])
    new.leave()
    assert kind_of(world) == "classic"
    if has_moved:
        world.restart()
    group = world.coordinator.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    group.check_commit(old.member_id, None, old.generation, 8)
    with pytest.raises(KafkaError):
        group.check_commit(old.member_id, None, old.generation - 1, 8)
    generation = old.generation
    settle_all([old])
    assert old.generation == generation + 1


def test_a_partition_that_a_leader_gave_to_two_members_is_had_by_one(world: GroupWorld) -> None:
    first, second = classic_group(world, 2)
    leader = first if first.leads else second
    group = world.coordinator.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    group.prepare("a test wants it", world.moment)
    first.waiting, second.waiting = first.ask_join(), second.ask_join()
    for member in (first, second):
        assert member.waiting is not None
        member.generation = member.waiting.reply.generation_id
        member.waiting = None
    given = b"\0\1\0\0\0\1\0\1a\0\0\0\1\0\0\0\0" + b"\xff" * 4
    leader.ask_sync([SyncGroupRequestAssignment(member.member_id, given) for member in (first, second)])
    Consumer(world, "new").join()
    had = [len(group_in(world).members[member.member_id].current.assigned) for member in (first, second)]
    assert sorted(had) == [0, 1]
