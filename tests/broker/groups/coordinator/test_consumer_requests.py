"""Golden stories of consumer groups: the assignment after each heartbeat, and the requests that are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from consumer_stories import GROUP, Consumer, describe, group_in, settle
from grouping import GroupWorld

from tailrace.broker.groups.assignment.assignments import listed
from tailrace.broker.groups.consumer import consumer_checks
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_heartbeat import TopicPartitions


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.put_topic("a", 6)
    world.put_topic("b", 4)
    return world


@pytest.fixture
def consumer(world: GroupWorld) -> Callable[..., Consumer]:
    return lambda member_id, *args, **more: Consumer(world, member_id, *args, **more)


def test_the_first_member_has_everything_with_its_first_response(world: GroupWorld, consumer: Any) -> None:
    m = consumer("m", ("a", "b"))
    response = m.join()
    assert (response.member_id, response.member_epoch) == ("m", 2)
    assert len(m.owned) == 10
    assert describe(world).group_state == "Stable"
    assert m.beat().assignment is None


def test_a_second_member_gets_what_the_first_has_revoked(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    world.pass_time(1.0)
    assert (n.join().member_epoch, n.owned) == (3, frozenset())
    assert describe(world).group_state == "Reconciling"
    told = m.beat(says_owned=False)
    assert (told.member_epoch, len(m.owned)) == (2, 3)
    n.beat()
    assert not n.owned, "m has not said that it gave anything up"
    assert m.beat().member_epoch == 3
    n.beat()
    assert m.owned | n.owned == group_in(world).owners.keys()
    assert (m.numbers, n.numbers) == ([0, 1, 2], [3, 4, 5])
    assert describe(world).group_state == "Stable"


def test_members_that_come_at_the_same_time_wait_for_one_assignment(world: GroupWorld, consumer: Any) -> None:
    members = [consumer(f"m{number}") for number in range(4)]
    for member in members:
        member.join()
    assert describe(world).group_state == "Assigning"
    assert [len(member.owned) for member in members] == [6, 0, 0, 0]
    world.pass_time(1.0)
    settle(members)
    assert group_in(world).target_epoch == 5
    assert sorted(len(member.owned) for member in members) == [1, 1, 2, 2]


def test_what_a_member_leaves_goes_to_the_others(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    m.leave()
    world.pass_time(1.0)
    n.beat()
    assert n.numbers == [0, 1, 2, 3, 4, 5]
    n.leave()
    assert (describe(world).group_state, describe(world).members) == ("Empty", [])
    assert not group_in(world).owners


def test_a_member_that_comes_and_goes_moves_nothing(world: GroupWorld, consumer: Any) -> None:
    m, n, passer_by = consumer("m"), consumer("n"), consumer("passer-by")
    n.join()
    m.join()
    world.pass_time(1.0)
    settle([m, n])
    had = m.owned, n.owned
    world.pass_time(1.0)
    passer_by.join()
    assert describe(world).group_epoch == group_in(world).target_epoch == 4
    passer_by.leave()
    world.pass_time(1.0)
    for each in (m, n):
        assert each.beat().assignment is None
    assert (m.owned, n.owned) == had


def test_a_lost_response_is_sent_again(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    world.pass_time(1.0)
    n.join()
    m.beat(says_owned=False)
    kept = m.owned
    assert m.ask(topic_partitions=[]).reply.member_epoch == 3, "an answer that m never got"
    response = m.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=["a"])
    assert (response.member_epoch, m.owned) == (3, kept)


@pytest.mark.parametrize("epoch", [1, 2, 4])
def test_a_member_with_another_epoch_is_fenced(world: GroupWorld, consumer: Any, epoch: int) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    assert m.epoch == 3
    assert m.error(member_epoch=epoch) == ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_fenced_when_the_member_has_what_it_may_not_have(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    before = m.owned
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    said = listed(before, TopicPartitions)
    assert m.error(member_epoch=2, topic_partitions=said) == ErrorCode.FENCED_MEMBER_EPOCH
    assert m.ask(member_epoch=2, topic_partitions=[]).reply.member_epoch == 3


def test_a_member_may_come_again_with_its_id(world: GroupWorld, consumer: Any) -> None:
    m = consumer("m")
    m.join()
    assert m.join().member_epoch == 2
    assert m.numbers == [0, 1, 2, 3, 4, 5]


def test_other_topics_are_another_assignment(world: GroupWorld, consumer: Any) -> None:
    m = consumer("m")
    m.join()
    response = m.beat(subscribed_topic_names=["b"])
    assert (response.member_epoch, m.owned) == (2, frozenset())
    response = m.beat()
    assert (response.member_epoch, m.numbers) == (3, [0, 1, 2, 3])


def test_partitions_of_unsubscribed_topics_are_revoked_before_the_next_assignment(
    world: GroupWorld, consumer: Any
) -> None:
    m, n = consumer("m", ("a", "b")), consumer("n", ("a", "b"))
    m.join()
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    assert n.numbers == [0, 1, 2, 3, 5]
    m.beat(subscribed_topic_names=["a", "b", "c"])
    n.beat(subscribed_topic_names=["b"])
    assert describe(world).group_state == "Assigning"
    assert n.numbers == [0, 1, 2, 3], "the one of the other topic it gives up"


def test_topics_that_come_grow_and_go_are_followed(world: GroupWorld, consumer: Any) -> None:
    m = consumer("m", ("a", "later"))
    m.join()
    assert len(m.owned) == 6
    world.put_topic("later", 2)
    world.pass_time(1.0)
    m.beat()
    assert (m.epoch, len(m.owned)) == (3, 8)
    world.put_topic("a", 7)
    world.pass_time(1.0)
    m.beat()
    assert (m.epoch, len(m.owned)) == (4, 9)
    world.cluster.remove_topic(world.cluster.topics["a"].id)
    world.pass_time(1.0)
    m.beat()
    assert m.numbers == [0, 1]
    m.beat()
    assert m.epoch == 5


def test_other_topics_are_of_no_concern(world: GroupWorld, consumer: Any) -> None:
    m = consumer("m")
    m.join()
    written = len(world.log)
    world.put_topic("else", 3)
    world.pass_time(1.0)
    m.beat()
    assert len(world.log) == written


def test_a_pattern_counts_at_once_and_follows_the_topics(world: GroupWorld, consumer: Any) -> None:
    m = consumer("m", None, extra={"subscribed_topic_regex": "[ac].*"})
    m.join()
    assert (m.epoch, len(m.owned)) == (2, 6)
    world.put_topic("c", 2)
    world.pass_time(1.0)
    m.beat()
    assert (m.epoch, len(m.owned)) == (3, 8)
    (member,) = describe(world).members
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == ([], "[ac].*")
    m.beat(subscribed_topic_regex="", subscribed_topic_names=["a"])
    m.beat()
    assert m.numbers == [0, 1, 2, 3, 4, 5]
    assert not group_in(world).patterns


def test_a_heartbeat_that_changes_nothing_writes_nothing(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    written = len(world.log)
    for _ in range(3):
        world.pass_time(5.0)
        m.beat(says_owned=False)
        n.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=["a"])
    assert len(world.log) == written


def test_another_coordinator_goes_on_where_the_log_ends(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n", None, extra={"subscribed_topic_regex": "a"})
    m.join()
    world.pass_time(1.0)
    n.join()
    m.beat(says_owned=False)
    for compacted in (False, True):
        before = describe(world)
        if compacted:
            world.compact()
        world.restart()
        assert describe(world) == before
    settle([m, n])
    assert (m.numbers, n.numbers) == ([0, 1, 2], [3, 4, 5])


def test_a_coordinator_that_comes_waits_for_members_as_long_as_they_have_always(
    world: GroupWorld, consumer: Any
) -> None:
    m = consumer("m")
    m.join()
    world.pass_time(40.0)
    world.restart()
    world.pass_time(44.0)
    m.beat()
    world.pass_time(45.0)
    assert describe(world).group_state == "Empty"


def test_the_time_to_revoke_starts_again_with_a_new_coordinator(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    world.pass_time(1.0)
    n.join()
    m.ask()
    world.restart()
    for _ in range(3):
        world.pass_time(19.0)
        m.ask()
    world.pass_time(3.1)
    assert [member.member_id for member in describe(world).members] == []
    assert m.error() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_left_for_now_finds_what_it_had(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m", instance_id="i"), consumer("n")
    m.join()
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    had = m.owned
    m.leave(-2)
    world.pass_time(1.0)
    n.beat()
    assert n.owned.isdisjoint(had)
    again = consumer("m2", instance_id="i")
    written = len(world.log)
    assert again.join().member_epoch == 3
    assert again.owned == had
    assert group_in(world).epoch == 3
    assert len(world.log) == written + 6, "the old member goes, the new one comes, and it has its epoch"
    assert m.error(member_epoch=3) == ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_is_one_member_at_a_time(world: GroupWorld, consumer: Any) -> None:
    m, other = consumer("m", instance_id="i"), consumer("other", instance_id="i")
    m.join()
    assert (
        other.error(rebalance_timeout_ms=1, subscribed_topic_names=["a"], topic_partitions=[])
        == ErrorCode.UNRELEASED_INSTANCE_ID
    )
    assert other.error(member_epoch=2) == ErrorCode.FENCED_INSTANCE_ID
    assert other.error(member_epoch=-1) == ErrorCode.FENCED_INSTANCE_ID
    assert m.error(instance_id="else") == ErrorCode.UNKNOWN_MEMBER_ID
    assert m.join().member_epoch == 2, "it is the same one again"


def test_what_is_refused_leaves_no_group_behind(world: GroupWorld, consumer: Any) -> None:
    stranger = consumer("m")
    assert stranger.error(member_epoch=5) == ErrorCode.GROUP_ID_NOT_FOUND
    assert stranger.error(member_epoch=-1) == ErrorCode.GROUP_ID_NOT_FOUND
    world.use(consumer_members_max=0)
    join: dict[str, Any] = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["a"], "topic_partitions": []}
    assert stranger.error(**join) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stranger.error(**join | {"subscribed_topic_regex": "("}) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not world.log
    assert GROUP not in world.coordinator.groups


def test_a_full_group_takes_no_more_members(world: GroupWorld, consumer: Any) -> None:
    world.use(consumer_members_max=2)
    m, n, o = consumer("m"), consumer("n"), consumer("o")
    m.join()
    n.join()
    join: dict[str, Any] = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["a"], "topic_partitions": []}
    assert o.error(**join) == ErrorCode.GROUP_MAX_SIZE_REACHED
    m.beat()
    n.leave()
    o.join()


def test_members_cannot_fill_the_memory_with_what_they_say(
    world: GroupWorld, consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_checks, "MEMBERS_BYTES_MAX", 5_000)
    m, n = consumer("m"), consumer("n", ("a" * 5_000,))
    m.join()
    join: dict[str, Any] = {"rebalance_timeout_ms": 1, "subscribed_topic_names": n.topics, "topic_partitions": []}
    assert n.error(**join) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert m.error(subscribed_topic_names=list(n.topics)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(group_in(world).members) == ["m"]
    m.beat(subscribed_topic_names=["b"])


def test_the_assignor_is_the_one_that_most_members_want(world: GroupWorld, consumer: Any) -> None:
    members = [consumer(f"m{number}", extra={"server_assignor": "range"}) for number in range(2)]
    for member in members:
        member.join()
    assert describe(world).assignor_name == "range"
    world.put_topic("b", 3)
    for member in members:
        member.beat(subscribed_topic_names=["a", "b"], server_assignor="range")
    world.pass_time(1.0)
    settle(members)
    b = world.cluster.topics["b"].id
    assert [[p.partition for p in sorted(m.owned) if p.topic_id == b] for m in members] == [[0, 1], [2]]
    members.append(consumer("m2", extra={"server_assignor": "uniform"}))
    members.append(consumer("m3", extra={"server_assignor": "uniform"}))
    for member in members[2:]:
        member.join()
    assert describe(world).assignor_name == "uniform", "the default one, when as many wish it"


def test_clients_of_the_first_version_are_given_their_ids(world: GroupWorld, consumer: Any) -> None:
    join: dict[str, Any] = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["a"], "topic_partitions": []}
    response = consumer("").ask(version=0, **join).reply
    assert response.member_id
    assert len(partitions := response.assignment.topic_partitions) == 1
    assert partitions[0].partitions == [0, 1, 2, 3, 4, 5]


def test_a_group_that_is_not_there_is_not_described(world: GroupWorld) -> None:
    asked = world.ask(lambda coordinator, moment, asked: asked.respond(coordinator.consumer.describe("nothing")))
    assert asked.error is not None
    assert asked.error.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_can_be_deleted_and_one_with_members_not(world: GroupWorld, consumer: Any) -> None:
    m = consumer("m", None, extra={"subscribed_topic_regex": "a"})
    m.join()
    delete = world.ask(lambda coordinator, moment, asked: coordinator.delete(GROUP))
    assert delete.error is not None
    assert delete.error.code == ErrorCode.NON_EMPTY_GROUP
    m.leave()
    world.ask(lambda coordinator, moment, asked: coordinator.delete(GROUP))
    assert GROUP not in world.coordinator.groups
    world.restart()
    assert GROUP not in world.coordinator.groups
    world.compact()
    assert all(record.value is None for record in world.log)


def test_each_rebalance_is_remembered(world: GroupWorld, consumer: Any) -> None:
    m, n = consumer("m"), consumer("n")
    m.join()
    world.pass_time(2.0)
    n.join()
    world.pass_time(3.0)
    m.beat(says_owned=False)
    m.beat()
    world.pass_time(1.0)
    n.beat()
    first, second = group_in(world).rebalances
    assert (first.cause, first.generation, first.ended_ms) == ("m joined", 2, first.began_ms)
    assert (second.cause, second.generation) == ("n joined", 3)
    assert second.last is not None
    assert (second.last.participant.member_id, second.last.seconds) == ("n", 4.0)
    assert second.ended_ms == second.began_ms + 4_000
    n.leave()
    assert group_in(world).rebalances[-1].cause == "n left"


def test_a_delayed_heartbeat_revokes_nothing(world: GroupWorld) -> None:
    first, second = Consumer(world, "first"), Consumer(world, "second")
    first.join()
    late = first.epoch
    world.put_topic("a", 8)
    world.pass_time(1.0)
    first.beat()
    assert (first.epoch, len(first.owned)) == (late + 1, 8)
    world.pass_time(1.0)
    second.join()
    assert first.ask(member_epoch=late, topic_partitions=[]).reply.member_epoch == first.epoch
    second.beat()
    assert not second.owned, "first has not said that it gave anything up"
    first.beat()
    assert len(first.owned) == 4, "it is told by the answer that it hears"
    first.beat()
    second.beat()
    assert (len(first.owned), len(second.owned)) == (4, 4)
