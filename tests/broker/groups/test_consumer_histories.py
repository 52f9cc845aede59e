"""Model test of consumer groups with random members, topics and coordinators.

No two members ever have the same partition, and in the end each partition has a member. Members know only what
responses tell them, responses get lost, and a coordinator may end after any request.
"""

from collections import Counter
from itertools import combinations
from random import Random
from typing import Any
from uuid import UUID

import pytest
from consumer_stories import GROUP, REBALANCE_TIMEOUT_MS, ClassicConsumer, Consumer, group_in
from grouping import CALLER, Asked, GroupWorld

from tailrace.broker.groups.assignment.assignments import TopicPartition, listed, partitions_of
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.group import Group
from tailrace.broker.groups.consumer import consumer_change
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.coordinator import consumer_groups
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

STATIC = 4
"""The index of the static member. The other members get a new id each time they join."""
STEPS = 70


class Member(Consumer):
    """A member that uses new partitions at once, and revokes partitions some time later."""

    told: frozenset[TopicPartition] = frozenset()
    says_everything = True
    """Whether the next heartbeat has all fields: on joining, for a new subscription, and after a lost response."""

    def heartbeat(self, *, answer_is_lost: bool = False) -> None:
        said: dict[str, Any] = {"topic_partitions": listed(self.owned, TopicPartitions)}
        if self.says_everything:
            said["rebalance_timeout_ms"] = REBALANCE_TIMEOUT_MS
            said["subscribed_topic_names"] = None if self.topics is None else list(self.topics)
            said |= self.extra
        asked = self.ask(**said)
        self.says_everything = asked.error is not None or answer_is_lost
        if asked.error is not None:
            # A fenced client abandons everything and joins again. Any other error would be a bug.
            assert asked.error.code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.FENCED_INSTANCE_ID,
            ), asked.error
            self.epoch, self.owned = 0, frozenset()
        elif not answer_is_lost:
            assert asked.reply.member_epoch >= self.epoch, "epochs never fall"
            self.epoch = asked.reply.member_epoch
            if asked.reply.assignment is not None:
                self.told = partitions_of(asked.reply.assignment.topic_partitions)
                self.owned |= self.told

    def give_up(self) -> None:
        self.owned &= self.told


class Story:
    """Consumers of one group, some of which use the classic protocol, and their random steps."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = GroupWorld()
        interval_ms = self.random.choice([0, 1_000])
        self.world.use(initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=interval_ms)
        self.world.put_topic("a", 3)
        self.world.put_topic("b", 2)
        self.members: dict[int, Member | ClassicConsumer] = {}
        self.joined = 0
        self.epoch_before = 0
        self.steps = [
            self.come,
            self.come,
            self.come,
            self.come_with_the_old_protocol,
            *[self.go_on] * 8,
            *[self.give_up] * 3,
            self.subscribe,
            self.leave,
            self.die,
            *[self.pass_time] * 3,
            *[self.take_a_turn] * 6,
            self.change_topic,
            self.delete_topic,
            self.restart,
            self.fail,
        ]

    def go(self) -> None:
        for _ in range(STEPS):
            step = self.random.choice(self.steps)
            step()
            self.no_partition_is_had_by_two()
            self.the_epoch_of_the_group_never_falls()
            if isinstance(self.group, ConsumerGroup):
                check_counts(self.group)
        self.settle()

    # members

    @property
    def place(self) -> int:
        return self.random.randrange(STATIC + 1)

    def come(self) -> None:
        place = self.place
        if place not in self.members:
            self.joined += 1
            topics = self.random.choice([("a",), ("a", "b"), ("b", "c"), None])
            member = Member(self.world, f"m{self.joined}", topics, instance_id="i" if place == STATIC else None)
            if topics is None:
                member.extra = {"subscribed_topic_regex": "[ac]"}
            member.heartbeat()
            self.members[place] = member

    def come_with_the_old_protocol(self) -> None:
        place = self.random.randrange(2)
        if place not in self.members:
            member = ClassicConsumer(self.world, topics=("a",), protocols=("range",), is_cooperative=False)
            member.go_on()
            self.members[place] = member

    def go_on(self) -> None:
        match self.members.get(self.place):
            case Member() as member:
                member.heartbeat(answer_is_lost=self.random.random() < 0.2)
            case ClassicConsumer() as old:
                old.go_on()

    def give_up(self) -> None:
        member = self.members.get(self.place)
        if isinstance(member, Member):
            member.give_up()

    def subscribe(self) -> None:
        member = self.members.get(self.place)
        if isinstance(member, Member) and member.topics is not None:
            member.topics = self.random.choice([("a",), ("b",), ("a", "b", "c")])
            member.says_everything = True

    def leave(self) -> None:
        match self.members.pop(self.place, None):
            case Member() as member:
                for_now = member.instance_id is not None and self.random.random() < 0.5
                member.ask(member_epoch=-2 if for_now else -1)
            case ClassicConsumer(waiting=None) as old:
                old.leave()

    def die(self) -> None:
        """Stops a member silently. Its partitions stay assigned to it until its session ends."""
        self.members.pop(self.place, None)

    # topics, time and coordinators

    def pass_time(self) -> None:
        self.world.pass_time(self.random.choice([0.5, 1.0, 1.0, 4.0, 8.0, 46.0, 61.0]))

    def take_a_turn(self) -> None:
        """Lets the coordinator handle the next few items of a target assignment."""
        self.world.take_a_turn()

    def change_topic(self) -> None:
        name, count = self.random.choice("abc"), self.random.randint(1, 4)
        topic = self.world.cluster.topics.get(name)
        if topic is None:
            self.joined += 1
            self.world.put_topic(name, count, topic_id=2_000 + self.joined)
        elif len(topic.partitions) < count:
            self.world.put_topic(name, count)

    def delete_topic(self) -> None:
        topic = self.world.cluster.topics.get(self.random.choice("bc"))
        if topic is not None:
            self.world.cluster.remove_topic(topic.id)

    def restart(self) -> None:
        group = self.group
        before = facts(group) if isinstance(group, ConsumerGroup) else None
        if self.random.random() < 0.5:
            self.world.compact()
        self.world.restart()
        if before is not None:
            assert facts(group_in(self.world)) == before

    def fail(self) -> None:
        """Ends a coordinator before its records are committed.

        No response was sent, and the next coordinator lacks them.
        """
        committed = len(self.world.log)
        for _ in range(self.random.randint(1, 3)):
            member = self.members.get(self.place)
            if isinstance(member, Member):
                member.heartbeat(answer_is_lost=True)
        self.world.restart(committed)
        self.epoch_before = 0  # no member has seen a later epoch
        group = self.group
        for member in self.members.values():
            if isinstance(member, Member) and isinstance(group, ConsumerGroup) and member.member_id in group.members:
                assert member.epoch <= group.members[member.member_id].current.epoch, "it was told what is in no log"

    # invariants

    @property
    def group(self) -> Group | None:
        return self.world.coordinator.groups.get(GROUP)

    def no_partition_is_had_by_two(self) -> None:
        group = self.group
        if isinstance(group, ConsumerGroup | ClassicGroup):
            there = [member for member in self.members.values() if member.member_id in group.members]
            for one, other in combinations(there, 2):
                assert one.owned.isdisjoint(other.owned), (one, other)

    def the_epoch_of_the_group_never_falls(self) -> None:
        """Epochs never decrease, unless a classic group takes the place of an empty group."""
        epoch = self.group.epoch if isinstance(self.group, ConsumerGroup) else 0
        assert epoch == 0 or epoch >= self.epoch_before
        self.epoch_before = epoch

    def settle(self) -> None:
        """Lets all members act until the group is stable. All partitions are then assigned evenly."""
        for _ in range(20):
            for member in list(self.members.values()):
                if isinstance(member, Member):
                    member.give_up()
                    member.heartbeat()
                else:
                    member.go_on()
            self.world.pass_time(3.0)
        group = self.group
        if not self.members:
            assert group is None or group.is_empty
            return
        assert group is not None
        assert group.state == "Stable"
        assert len(group.members) == len(self.members)
        if isinstance(group, ConsumerGroup):
            self._check_shares(group)

    def _check_shares(self, group: ConsumerGroup) -> None:
        topics = [self.world.cluster.topics.get(name) for name in group.subscribed_topics()]
        shared = {
            TopicPartition(topic.id, number)
            for topic in topics
            if topic is not None
            for number in range(len(topic.partitions))
        }
        assert frozenset[TopicPartition]().union(*(member.owned for member in self.members.values())) == shared
        assert group.owners.keys() == shared
        assert all(group.owners[each] == member.member_id for member in self.members.values() for each in member.owned)
        if len({group.topic_names_of(member.profile) for member in group.members.values()}) == 1:
            sizes = [len(member.owned) for member in self.members.values()]
            assert max(sizes) - min(sizes) <= 1


def facts(group: ConsumerGroup) -> dict[str, Any]:
    names = (
        "epoch metadata_hash target_epoch target_made_ms members static_members targets patterns owners"
        " bytes_held names_subscribed patterns_subscribed assignors_preferred protocols_supported classic_members"
        " unreconciled state"
    )
    return {name: getattr(group, name) for name in names.split()}


def check_counts(group: ConsumerGroup) -> None:
    """Counters that are kept as members join and leave equal a new count."""
    profiles = [member.profile for member in group.members.values()]
    assert group.bytes_held == sum(profile.bytes_held for profile in profiles)
    assert group.names_subscribed == Counter(name for profile in profiles for name in profile.topic_names)
    assert group.patterns_subscribed == Counter(profile.topic_pattern for profile in profiles if profile.topic_pattern)
    assert group.classic_members == sum(profile.classic is not None for profile in profiles)
    currents = [member.current for member in group.members.values()]
    assert group.unreconciled == sum(not current.is_reconciled_to(group.target_epoch) for current in currents)
    owners: dict[TopicPartition, str] = {}
    for member in group.members.values():
        for partition in (*member.current.assigned, *member.current.revoking):
            assert owners.setdefault(partition, member.member_id) == member.member_id
    assert group.owners == owners
    assert group.targets.keys() <= group.members.keys()
    targets = [partition for target in group.targets.values() for partition in target]
    assert len(targets) == len(set(targets)), "no partition is in two targets"


@pytest.mark.parametrize("seed", range(50))
def test_random_histories(seed: int) -> None:
    Story(seed).go()


@pytest.mark.parametrize("seed", range(50, 100))
def test_random_histories_with_assignments_in_small_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_change, "SMALL_MAX", 0)
    monkeypatch.setattr(consumer_groups, "ITEMS_PER_TURN", 20)
    Story(seed).go()


def say(world: GroupWorld, request: ConsumerGroupHeartbeatRequest, version: int) -> Asked:
    return world.ask(
        lambda coordinator, moment, asked: coordinator.consumer.heartbeat(request, version, CALLER, asked, moment)
    )


@pytest.mark.parametrize("seed", range(40))
def test_every_heartbeat_gets_a_response_or_an_error_of_kafka(seed: int) -> None:
    """Feeds random heartbeats. Only KafkaError may be raised, and the resulting log can be loaded again."""
    random = Random(seed)
    world = GroupWorld()
    topics = [world.put_topic(name, count).id for name, count in (("a", 3), ("b", 1))] + [UUID(int=7)]
    names = ["", " ", "m", "n", "i", "x" * 40_000]

    def partitions_said() -> list[TopicPartitions] | None:
        some = [TopicPartitions(random.choice(topics), random.choices([-1, 0, 1, 9], k=2)) for _ in range(3)]
        return random.choice([None, [], some])

    for _ in range(60):
        request = ConsumerGroupHeartbeatRequest(
            random.choice(["g", "g", "g", "", "h"]),
            random.choice(names),
            random.choice([0, 0, 0, 1, 2, 3, 5, -1, -2, -3, 2**31 - 1, -(2**31)]),
            random.choice([None, None, *names]),
            random.choice([None, None, *names]),
            random.choice([-1, 0, 1, 60_000, 2**31 - 1, -5]),
            random.choice([None, [], ["a"], ["a", "a", "b"], ["nothing", "\n"], ["x" * 40_000]]),
            random.choice([None, "", "a", ".*", "(", "x" * 40_000]),
            random.choice([None, None, "range", "uniform", "", "mine"]),
            partitions_said(),
        )
        asked = say(world, request, random.randint(0, 1))
        assert asked.answers == 1
        world.pass_time(random.choice([0.0, 0.0, 0.1, 5.0, 46.0]))
        for group in world.coordinator.groups.values():
            if isinstance(group, ConsumerGroup):
                check_counts(group)
    world.restart()
