"""Model test of a coordinator with members of both kinds of groups, commits, topics and time, in random order.

A coordinator that loads the log, or the compacted log, has the same state as the one that wrote it. Every request gets
a response.
"""

from classic_groups import Client, leave, subscription
from committing import ask_commit, ask_delete, ask_fetch
from consumer_stories import Consumer
from grouping import Asked, GroupWorld
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tailrace.broker.groups.common.coordinator_records import encode_record
from tailrace.broker.groups.common.group import GroupKind
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey
from tailrace.protocol.messages.leave_group import MemberIdentity

GROUPS = ("g", "h")
TOPICS = ("orders", "payments")
groups = st.sampled_from(GROUPS)
topics = st.sampled_from(TOPICS)
numbers = st.integers(0, 3)
places = st.tuples(topics, st.integers(0, 3))


class CoordinatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld()
        self.world.use(initial_rebalance_delay_ms=0)
        self.next_topic = 1

    @initialize(static=st.booleans())
    def begin(self, static: bool) -> None:
        for topic in TOPICS:
            self.create(topic, 3)
        self.world.restart()
        one, both = subscription("orders"), subscription(*TOPICS)
        protocols = [{"range": one}, {"range": both, "sticky": both}]
        self.clients = [
            Client(
                self.world,
                group_id=GROUPS[number % 2],
                protocols=protocols[number // 2],
                instance_id="static" if static and not number else None,
            )
            for number in range(4)
        ]
        self.consumers = [
            Consumer(
                self.world,
                f"member-{number}",
                topics=TOPICS[: 1 + number // 2],
                group_id=GROUPS[number % 2],
                instance_id="static" if static and number == 1 else None,
            )
            for number in range(4)
        ]

    def create(self, topic: str, partitions: int) -> None:
        self.world.put_topic(topic, partitions, self.next_topic)
        self.next_topic += 1

    # classic members

    @rule(number=numbers)
    def join(self, number: int) -> None:
        client = self.clients[number]
        if client.joined is None or not client.joined.is_waiting:
            client.join()

    @rule(number=numbers)
    def sync(self, number: int) -> None:
        client = self.clients[number]
        if _is_joined(client.joined):
            client.sync({each.member_id: b"" for each in self.clients} if client.leads else {})

    @rule(number=numbers)
    def heartbeat(self, number: int) -> None:
        self.clients[number].heartbeat()

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if client.member_id:
            leave(self.world, MemberIdentity(client.member_id, client.instance_id), group_id=client.group_id)

    # members of consumer groups

    @rule(number=numbers, joins_anew=st.booleans())
    def beat(self, number: int, joins_anew: bool) -> None:
        consumer = self.consumers[number]
        if joins_anew or consumer.epoch <= 0:
            joining = consumer.ask(
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=list(consumer.topics or ()),
                topic_partitions=[],
            )
            if joining.error is None:
                consumer.join()
        elif consumer.ask().error is None:
            consumer.beat()
        else:
            consumer.epoch = 0

    @rule(number=numbers)
    def go(self, number: int) -> None:
        consumer = self.consumers[number]
        consumer.ask(member_epoch=-1 if consumer.instance_id is None else -2)
        consumer.epoch = 0

    # offsets

    @rule(
        group=groups,
        place=places,
        who=st.sampled_from(["nobody", "client", "consumer"]),
        number=numbers,
        version=st.sampled_from([2, 8, 9]),
    )
    def commit(self, group: str, place: tuple[str, int], who: str, number: int, version: int) -> None:
        said: dict[str, str | int] = {}
        if who == "client":
            said = {"member": self.clients[number].member_id, "generation": self.clients[number].generation}
        elif who == "consumer":
            said = {"member": self.consumers[number].member_id, "generation": self.consumers[number].epoch}
        assert ask_commit(self.world, group, {place: 5}, version=version, **said).reply is not None  # type: ignore[arg-type]

    @rule(group=groups, place=places)
    def delete_offset(self, group: str, place: tuple[str, int]) -> None:
        ask_delete(self.world, group, [place])

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        self.world.ask(lambda coordinator, moment, waiter: coordinator.delete(group))

    # events of the whole coordinator

    @rule(seconds=st.sampled_from([0.5, 5.0, 50.0, 700.0, 700_000.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(topic=topics, partitions=st.integers(1, 4))
    def replace_topic(self, topic: str, partitions: int) -> None:
        before = self.world.cluster.topics[topic]
        self.create(topic, partitions)
        self.world.coordinator.offsets.removal.on_topic_deleted(before.id, topic)
        self.world.pass_time(0)

    @rule(compacted=st.booleans())
    def another_coordinator_takes_over(self, compacted: bool) -> None:
        if compacted:
            self.world.compact()
        self.world.restart()

    # invariants

    @invariant()
    def nobody_was_refused_for_a_mistake_of_ours(self) -> None:
        assert not [asked for asked in self.world.asked if _code(asked) is ErrorCode.UNKNOWN_SERVER_ERROR]

    @invariant()
    def whoever_reads_the_log_knows_the_same(self) -> None:
        now = self.world
        for compacted in (False, True):
            other = GroupWorld(now.settings, now.cluster, list(now.log), now.now, now.now_ms)
            if compacted:
                other.compact()
            other.restart()
            for group in GROUPS:
                assert _offsets(ask_fetch(other, group)) == _offsets(ask_fetch(now, group))
                here, there = now.coordinator.groups.get(group), other.coordinator.groups.get(group)
                if here is not None and there is not None:
                    assert here.kind is there.kind

    @invariant()
    def nothing_is_left_of_what_a_group_was_before(self) -> None:
        left = {encode_record(record)[0]: record for record in self.world.log}
        for record in left.values():
            if record.value is not None and not isinstance(record.key, OffsetCommitKey):
                is_classic = isinstance(record.key, GroupMetadataKey)
                group = self.world.coordinator.groups[record.key.group if is_classic else record.key.group_id]
                assert group.kind is (GroupKind.CLASSIC if is_classic else GroupKind.CONSUMER)


def _is_joined(asked: Asked | None) -> bool:
    return asked is not None and asked.reply is not None and not asked.reply.error_code


def _code(asked: Asked) -> int | None:
    return asked.error.code if asked.error is not None else getattr(asked.reply, "error_code", None)


def _offsets(asked: Asked) -> set[tuple[str, int, int]]:
    return {
        (topic.name, each.partition_index, each.committed_offset)
        for topic in asked.reply.topics
        for each in topic.partitions
    }


CoordinatorMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
test_coordinator = CoordinatorMachine.TestCase
