"""Model test of offsets: random commits, inside transactions and outside, markers, deletions and restarts.

The model is a list of what was written. Of each partition, the last record that is not aborted is in effect. After
every step another coordinator loads the log.
"""

from committing import commit, delete, fetch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import Struct
from transactional_groups import TransactionalGroupWorld, ask_stable, commit_in_transaction, stable

from tailrace.broker.groups.coordinator.offset_fetches import HELD_SECONDS_MAX
from tailrace.protocol.error_codes import ErrorCode

PARTITIONS = 3
GROUPS = ("g", "h")
PRODUCERS = (1, 2, 3)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT

groups = st.sampled_from(GROUPS)
producers = st.sampled_from(PRODUCERS)
offsets = st.dictionaries(
    st.tuples(st.just("orders"), st.integers(0, PARTITIONS - 1)), st.integers(0, 2**40), min_size=1
)


class Written(Struct):
    group: str
    place: tuple[str, int]
    offset: int
    producer: int | None
    """None if the record belongs to no open transaction."""


class TransactionalOffsetMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = TransactionalGroupWorld()
        self.world.put_topic("orders", PARTITIONS)
        self.written: list[Written] = []

    @rule(group=groups, offsets=offsets)
    def commit(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        assert set(commit(self.world, group, offsets).values()) == {ErrorCode.NONE}
        self.written += [Written(group, place, offset, None) for place, offset in offsets.items()]

    @rule(group=groups, offsets=offsets, producer=producers)
    def commit_in_transaction(self, group: str, offsets: dict[tuple[str, int], int], producer: int) -> None:
        assert set(commit_in_transaction(self.world, group, offsets, producer).values()) == {ErrorCode.NONE}
        self.written += [Written(group, place, offset, producer) for place, offset in offsets.items()]

    @rule(producer=producers, is_commit=st.booleans())
    def end(self, producer: int, is_commit: bool) -> None:
        self.world.end(producer, is_commit=is_commit)
        if not is_commit:
            self.written = [each for each in self.written if each.producer != producer]
        for each in self.written:
            if each.producer == producer:
                each.producer = None

    @rule(group=groups, partition=st.integers(0, PARTITIONS - 1))
    def delete_offset(self, group: str, partition: int) -> None:
        if group in self.world.coordinator.groups:
            delete(self.world, group, [("orders", partition)])
        self.written = [each for each in self.written if (each.group, each.place[1]) != (group, partition)]

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        self.world.ask(lambda coordinator, moment, waiter: coordinator.delete(group))
        self.written = [each for each in self.written if each.group != group]

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(group=groups)
    def wait_for_stable_offsets(self, group: str) -> None:
        asked = ask_stable(self.world, group)
        effective, pending = self.effective(group), self.pending(group)
        assert asked.is_waiting == bool(effective.keys() & pending)
        self.world.pass_time(HELD_SECONDS_MAX)
        found = {place: UNSTABLE if place in pending else offset for place, offset in effective.items()}
        assert stable(asked) == found

    def effective(self, group: str) -> dict[tuple[str, int], int]:
        return {each.place: each.offset for each in self.written if each.group == group and each.producer is None}

    def pending(self, group: str) -> set[tuple[str, int]]:
        return {each.place for each in self.written if each.group == group and each.producer is not None}

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        for world in (self.world, self.world.reader()):
            for group in GROUPS:
                assert fetch(world, group) == self.effective(group)
                assert set(world.coordinator.offsets.pending.partitions(group)) == self.pending(group)
                assert group in world.coordinator.groups or not (self.effective(group) or self.pending(group))

    @invariant()
    def a_coordinator_that_loads_the_log_gets_the_same_end(self) -> None:
        """Ends all transactions at a coordinator that has loaded the log."""
        other = self.world.reader()
        for number, producer in enumerate(PRODUCERS):
            other.end(producer, is_commit=number % 2 == 0)
        aborted = set(PRODUCERS[1::2])
        for group in GROUPS:
            assert fetch(other, group) == {
                each.place: each.offset for each in self.written if each.group == group and each.producer not in aborted
            }


TransactionalOffsetMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_transactional_offsets = TransactionalOffsetMachine.TestCase
