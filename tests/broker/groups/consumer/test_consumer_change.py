"""Tests that a change of a consumer group writes only what has changed, in an order that can be replayed."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from consumer_stories import GROUP, Consumer, group_in, settle
from grouping import CALLER, GroupWorld

from tailrace.broker.groups.consumer import consumer_change
from tailrace.broker.groups.consumer.consumer_member import ConsumerMember

MEMBER = "ConsumerGroupMemberMetadataKey"
EPOCH = "ConsumerGroupMetadataKey"
PATTERN = "ConsumerGroupRegularExpressionKey"
TARGET = "ConsumerGroupTargetAssignmentMemberKey"
TARGET_EPOCH = "ConsumerGroupTargetAssignmentMetadataKey"
CURRENT = "ConsumerGroupCurrentMemberAssignmentKey"


class Log:
    """Returns the records that were written since the last call."""

    def __init__(self, world: GroupWorld) -> None:
        self._world = world
        self._seen = 0

    def news(self) -> list[str]:
        records = self._world.log[self._seen :]
        self._seen = len(self._world.log)
        return [("" if record.value else "-") + type(record.key).__name__ for record in records]


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.put_topic("a", 4)
    return world


@pytest.fixture
def log(world: GroupWorld) -> Log:
    return Log(world)


def test_joining_and_leaving(world: GroupWorld, log: Log) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    assert log.news() == [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    n.join()
    assert log.news() == [MEMBER, EPOCH, CURRENT], "the next assignment has to wait"
    world.pass_time(1.0)
    n.beat()
    assert log.news() == [TARGET, TARGET, TARGET_EPOCH, CURRENT]
    m.beat(says_owned=False)
    assert log.news() == [CURRENT]
    m.beat()
    n.beat()
    assert log.news() == [CURRENT, CURRENT]
    m.leave()
    assert log.news() == ["-" + CURRENT, "-" + TARGET, "-" + MEMBER, EPOCH]


def test_a_member_without_topics_changes_nothing_for_others(world: GroupWorld, log: Log) -> None:
    idle = Consumer(world, "idle", ())
    idle.join()
    assert log.news() == [MEMBER, EPOCH, TARGET_EPOCH, CURRENT]
    assert group_in(world).epoch == 1
    Consumer(world, "idle too", ()).join()
    assert log.news() == [MEMBER, CURRENT]
    assert group_in(world).epoch == 1


def test_targets_that_stay_are_not_written_again(world: GroupWorld, log: Log) -> None:
    members = [Consumer(world, f"m{number}") for number in range(4)]
    for member in members:
        member.join()
    world.pass_time(1.0)
    settle(members)
    log.news()
    world.put_topic("a", 5)
    world.pass_time(1.0)
    settle(members)
    assert Counter(log.news()) == {EPOCH: 1, TARGET: 1, TARGET_EPOCH: 1, CURRENT: 4}


def test_patterns_are_written_when_they_mean_other_topics(world: GroupWorld, log: Log) -> None:
    m = Consumer(world, "m", None, extra={"subscribed_topic_regex": "a.*"})
    m.join()
    assert log.news() == [MEMBER, PATTERN, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    world.put_topic("b", 1)
    m.beat()
    assert log.news() == []
    world.put_topic("aa", 1)
    m.beat()
    assert log.news() == [PATTERN, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    m.leave()
    assert log.news() == ["-" + CURRENT, "-" + TARGET, "-" + MEMBER, "-" + PATTERN, EPOCH]


class Viewer:
    """A user who may see some topics."""

    version = 1

    def __init__(self, *topics: str) -> None:
        self.topics: tuple[str, ...] = topics

    def may_describe(self, topic: str) -> bool:
        return topic in self.topics


def test_a_pattern_matches_what_all_its_members_may_see(world: GroupWorld) -> None:
    world.put_topic("aa", 4)
    world.use(consumer_assignment_interval_ms=0)
    m, n, other = (
        Consumer(
            world,
            name,
            None,
            extra={"subscribed_topic_regex": pattern},
            caller=CALLER._replace(viewer=Viewer(*topics)),
        )
        for name, pattern, topics in (("m", "a.*", ("a", "aa")), ("n", "a.*", ("a",)), ("other", ".*a", ("aa",)))
    )
    m.join()
    assert group_in(world).patterns["a.*"] == {"a", "aa"}
    n.join()
    assert group_in(world).patterns["a.*"] == {"a"}
    other.join()
    assert group_in(world).patterns == {"a.*": {"a"}, ".*a": {"aa"}}
    n.leave()
    assert group_in(world).patterns["a.*"] == {"a", "aa"}


def test_a_member_loses_a_topic_that_it_may_not_see_any_more_and_others_keep(world: GroupWorld) -> None:
    viewer = Viewer("a")
    extra = {"subscribed_topic_regex": "a.*"}
    m = Consumer(world, "m", None, extra=extra, caller=CALLER._replace(viewer=viewer))
    n = Consumer(world, "n")
    m.join()
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    before = len(m.owned), len(n.owned)
    assert min(before) > 0
    for version, topics, shares in ((2, (), (0, sum(before))), (3, ("a",), before)):
        viewer.version, viewer.topics = version, topics
        m.beat()
        world.pass_time(1.0)
        settle([m, n])
        assert (len(m.owned), len(n.owned)) == shares


def test_members_that_see_all_and_others_do_not_make_each_other_look_again(world: GroupWorld) -> None:
    asked: list[str] = []

    class Counting(Viewer):
        def may_describe(self, topic: str) -> bool:
            asked.append(topic)
            return True

    extra = {"subscribed_topic_regex": "a.*"}
    m = Consumer(world, "m", None, extra=extra, caller=CALLER._replace(viewer=Counting()))
    n = Consumer(world, "n", None, extra=extra)
    m.join()
    n.join()
    settle([m, n])
    asked.clear()
    for _ in range(3):
        m.beat()
        n.beat()
    assert asked == []


def test_another_name_for_the_same_client_is_no_rebalance(world: GroupWorld, log: Log) -> None:
    m = Consumer(world, "m")
    m.join()
    log.news()
    m.beat(rack_id="r")
    assert log.news() == [MEMBER]
    m.beat(server_assignor="range")
    assert log.news() == [MEMBER], "as Apache Kafka has it: it counts for the next assignment"


def test_a_group_of_one_waits_for_no_other_assignment(world: GroupWorld) -> None:
    m = Consumer(world, "m")
    m.join()
    m.leave()
    n = Consumer(world, "n")
    n.join()
    assert n.numbers == [0, 1, 2, 3]


@pytest.mark.parametrize("interval_ms", [0, 5_000])
def test_how_long_the_next_assignment_has_to_wait_can_be_set(world: GroupWorld, interval_ms: int) -> None:
    world.use(consumer_assignment_interval_ms=interval_ms)
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    n.join()
    assert (group_in(world).target_epoch == 3) == (interval_ms == 0)
    world.pass_time(4.9)
    n.beat()
    assert (group_in(world).target_epoch == 3) == (interval_ms == 0)
    world.pass_time(0.1)
    n.beat()
    assert group_in(world).target_epoch == 3


def test_an_assignment_is_not_waited_for_when_the_wall_clock_goes_back(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    world.now_ms -= 3_600_000
    n.join()
    assert group_in(world).target_epoch == 3


def test_an_assignor_that_is_not_configured_any_more_is_not_used(world: GroupWorld) -> None:
    m, n = (Consumer(world, name, extra={"server_assignor": "range"}) for name in "mn")
    m.join()
    world.use(consumer_assignors=("uniform",))
    n.extra = {}
    n.join()
    world.pass_time(1.0)
    settle([m, n])
    assert world.coordinator.consumer.describe(GROUP).assignor_name == "uniform"


def test_members_that_come_while_one_assignment_is_waited_for_are_one_rebalance(world: GroupWorld) -> None:
    members = [Consumer(world, f"m{number}") for number in range(3)]
    for member in members:
        member.join()
    assert [each.cause for each in group_in(world).rebalances] == ["m0 joined", "m1 joined"]
    world.pass_time(1.0)
    settle(members)
    rebalance = group_in(world).rebalances[-1]
    assert (rebalance.generation, list(rebalance.arrivals)) == (4, ["m0", "m1", "m2"])
    assert not rebalance.expected
    assert rebalance.ended_ms is not None


def test_members_that_do_not_join_are_recorded(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    world.pass_time(1.0)
    n.join()
    for _ in range(10):
        world.pass_time(4.6)
        n.beat()
    second, third = list(group_in(world).rebalances)[1:]
    assert list(second.expected) == ["n"], "it never got what m had"
    assert [(each.participant.member_id, each.why, each.seconds) for each in second.departed] == [
        ("m", "sent no heartbeat in time", 44.0)
    ]
    assert third.cause == "m sent no heartbeat in time"


class _CountedMembers(dict[str, ConsumerMember]):
    """The members of a group. Counts how often code looks at all of them."""

    scans = 0

    def __iter__(self) -> Iterator[str]:
        self.scans += 1
        return super().__iter__()

    def keys(self) -> Any:
        self.scans += 1
        return super().keys()

    def values(self) -> Any:
        self.scans += 1
        return super().values()

    def items(self) -> Any:
        self.scans += 1
        return super().items()


def test_joins_within_the_assignment_interval_do_not_look_at_all_members(world: GroupWorld) -> None:
    Consumer(world, "first").join()
    Consumer(world, "second").join()
    group = group_in(world)
    members = group.members = _CountedMembers(group.members)
    for number in range(10):
        Consumer(world, f"m{number}").join()
    assert members.scans == 0
    assert len(members) == 12


def test_a_group_forgets_which_topics_a_removed_member_may_see(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    n.join()
    m.leave()
    assert group_in(world).viewers.keys() == {"n"}


def test_a_member_that_has_never_had_partitions_needs_no_target_record(world: GroupWorld, log: Log) -> None:
    members = [Consumer(world, f"m{number}") for number in range(10)]
    for member in members:
        member.join()
    log.news()
    world.pass_time(1.0)
    members[1].beat()
    assert log.news().count(TARGET) == 4, "the first member keeps one partition, and three others get one each"
    world.restart()
    settle(members)
    assert sorted(len(member.owned) for member in members) == 6 * [0] + 4 * [1]


@pytest.mark.parametrize(
    ("members", "items", "at_once"), [(900, 10_000, True), (901, 10_000, False), (900, 900, False)]
)
def test_a_small_group_is_assigned_at_once(
    world: GroupWorld, members: int, items: int, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_change, "ITEMS_AT_ONCE", items)
    world.put_topic("a", consumer_change.SMALL_MAX - 900)
    consumers = [Consumer(world, f"m{number}") for number in range(members)]
    for each in consumers:
        each.join()
    world.now_ms += 1000
    consumers[-1].beat()
    assert (group_in(world).target_epoch == members + 1) == at_once
    world.pass_time(0)
    assert group_in(world).target_epoch == members + 1


def test_few_members_of_a_large_group_are_listed_as_expected(
    world: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_change, "EXPECTED_MAX", 2)
    members = [Consumer(world, f"m{number}") for number in range(4)]
    for member in members:
        member.join()
    world.pass_time(1.0)
    settle(members)
    world.pass_time(1.0)
    members[0].leave()
    assert list(group_in(world).rebalances[-1].expected) == ["m1", "m2"]
