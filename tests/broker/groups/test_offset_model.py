"""Model test of offsets with random commits, deletions, topics and time, against a dictionary.

After every step a new coordinator loads the log, and the compacted log.
"""

from committing import ask_delete, commit, fetch
from grouping import GroupWorld
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode

RETENTION_SECONDS = 3600
CHECK_SECONDS = 600
PARTITIONS = 3

groups = st.sampled_from(["g", "h", "i"])
topics = st.sampled_from(["orders", "payments"])
places = st.tuples(topics, st.integers(0, PARTITIONS))
"""The partitions to commit for. Some do not exist."""


class Kept(Struct):
    offset: int
    committed_ms: int
    expires_ms: int | None


class OffsetMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld()
        self.world.use(offsets_retention_ms=RETENTION_SECONDS * 1000)
        self.kept: dict[tuple[str, str, int], Kept] = {}
        self.groups: set[str] = set()
        self.next_id = 1

    @initialize()
    def begin(self) -> None:
        for topic in ("orders", "payments"):
            self.create(topic)
        self.world.restart()

    def create(self, topic: str) -> None:
        self.world.put_topic(topic, PARTITIONS, self.next_id)
        self.next_id += 1

    @rule(
        group=groups,
        offsets=st.dictionaries(places, st.integers(0, 2**40), min_size=1, max_size=3),
        retention_seconds=st.none() | st.sampled_from([0, 1, 900, 10 * RETENTION_SECONDS]),
    )
    def commit(self, group: str, offsets: dict[tuple[str, int], int], retention_seconds: int | None) -> None:
        if retention_seconds is None:
            errors = commit(self.world, group, offsets)
        else:
            errors = commit(self.world, group, offsets, version=2, retention_ms=retention_seconds * 1000)
        for (topic, partition), offset in offsets.items():
            exists = topic in self.world.cluster.topics and partition < PARTITIONS
            assert (errors[topic, partition] == 0) == exists
            if exists:
                now_ms = self.world.now_ms
                expires_ms = None if retention_seconds is None else now_ms + retention_seconds * 1000
                self.kept[group, topic, partition] = Kept(offset, now_ms, expires_ms)
                self.groups.add(group)

    @rule(group=groups, places=st.lists(places, min_size=1, max_size=3))
    def delete_offsets(self, group: str, places: list[tuple[str, int]]) -> None:
        asked = ask_delete(self.world, group, places)
        if group not in self.groups:
            assert asked.error is not None and asked.error.code is ErrorCode.GROUP_ID_NOT_FOUND
            return
        for topic, partition in places:
            if topic in self.world.cluster.topics:
                self.kept.pop((group, topic, partition), None)

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        asked = self.world.ask(lambda coordinator, moment, waiter: coordinator.delete(group))
        assert (asked.error is None) == (group in self.groups)
        self.forget({place for place in self.kept if place[0] == group})
        self.groups.discard(group)

    @rule(topic=topics, is_created_again=st.booleans())
    def delete_topic(self, topic: str, is_created_again: bool) -> None:
        spec = self.world.cluster.topics.get(topic)
        if spec is not None:
            self.world.cluster.remove_topic(spec.id)
            self.world.coordinator.offsets.removal.on_topic_deleted(spec.id, topic)
            self.world.pass_time(0)
            self.forget({place for place, kept in self.kept.items() if place[1] == topic})
        if is_created_again and topic not in self.world.cluster.topics:
            self.create(topic)

    @rule(checks=st.integers(1, 12))
    def pass_time(self, checks: int) -> None:
        for _ in range(checks):
            self.world.pass_time(self.world.coordinator.deadline - self.world.now)
            now_ms = self.world.now_ms
            self.forget(
                {
                    place
                    for place, kept in self.kept.items()
                    if (
                        now_ms - kept.committed_ms >= RETENTION_SECONDS * 1000
                        if kept.expires_ms is None
                        else now_ms >= kept.expires_ms
                    )
                }
            )
            self.groups &= {group for group, _, _ in self.kept}

    @rule(seconds=st.floats(0.001, CHECK_SECONDS / 2))
    def pass_some_time(self, seconds: float) -> None:
        if self.world.now + seconds < self.world.coordinator.deadline:
            self.world.pass_time(seconds)

    def forget(self, gone: set[tuple[str, str, int]]) -> None:
        for place in gone:
            del self.kept[place]

    @rule()
    def another_coordinator_takes_over(self) -> None:
        self.world.restart()
        self.groups = {group for group, _, _ in self.kept}

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        assert set(self.world.coordinator.groups) == self.groups
        self.check(self.world)

    @invariant()
    def whoever_reads_the_log_knows_the_same(self) -> None:
        now = self.world
        other = GroupWorld(now.settings, now.cluster, list(now.log), now.now, now.now_ms)
        other.restart()
        self.check(other)
        other.compact()
        other.restart()
        self.check(other)
        assert set(other.coordinator.groups) == {group for group, _, _ in self.kept}

    def check(self, world: GroupWorld) -> None:
        for group in ("g", "h", "i"):
            kept = {place[1:]: each.offset for place, each in self.kept.items() if place[0] == group}
            assert fetch(world, group) == kept


OffsetMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_offsets = OffsetMachine.TestCase
