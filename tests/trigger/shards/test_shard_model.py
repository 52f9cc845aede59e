"""Model test of a shard's line: random logs with gaps, outcomes, deaths of workers, and truncations, in random order.

No record is lost, and none is handed out twice at once or before an earlier one that it has to wait for. The mark is
always exactly before the first record that holds it back. No event has more attempts than allowed, and everything ends
when failures stop.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from shard_model import ShardModel

from tailrace.trigger.config.trigger_config import (
    Acknowledgement,
    OnExhausted,
    Order,
    Retry,
    RetryMode,
    TriggerConfig,
)
from tailrace.trigger.work import FailureKind

configs = st.builds(
    TriggerConfig,
    name=st.just("t"),
    topic=st.just("orders"),
    group=st.just("billing"),
    max_workers=st.integers(1, 2),
    read_batch_size=st.sampled_from([0, 0, 0, 3]),
    polling_interval=st.just(1.0),
    batch_size=st.sampled_from([0, 3]),
    batch_seconds=st.sampled_from([0.0, 2.0]),
    order=st.sampled_from(Order),
    acknowledgement=st.sampled_from([Acknowledgement.AUTOMATIC, Acknowledgement.EXPLICIT]),
    open_events_max=st.sampled_from([1, 4, 1000]),
    acknowledgement_timeout=st.just(10.0),
    retry=st.builds(
        Retry,
        attempts=st.integers(1, 3),
        backoff=st.just((1.0, 8.0)),
        mode=st.sampled_from([RetryMode.IN_ORDER, RetryMode.IN_ORDER, RetryMode.ASIDE]),
        split_batch=st.booleans(),
    ),
    on_exhausted=st.sampled_from([OnExhausted.DEAD_LETTER, OnExhausted.SKIP, OnExhausted.STOP]),
)
some = st.integers(0, 3)
failures = st.sampled_from([FailureKind.RAISED, FailureKind.WORKER_ENDED, None])
flags = st.lists(st.booleans(), max_size=6)
keys = st.lists(st.sampled_from([b"a", b"a", b"b", b"c", None]), min_size=6, max_size=6)


class ShardMachine(RuleBasedStateMachine):
    @initialize(config=configs, bytes_max=st.sampled_from([300, 1_000_000]))
    def begin(self, config: TriggerConfig, bytes_max: int) -> None:
        self.model = ShardModel(config, bytes_max)

    @rule(
        gap=st.sampled_from([0, 0, 0, 2]),
        kept=st.lists(st.sampled_from([True, True, False]), min_size=4, max_size=6),
        tail=st.sampled_from([0, 0, 2]),
        keys=keys,
        is_control=st.sampled_from([False, False, False, True]),
        fetched=st.integers(0, 4),
    )
    def append(
        self, gap: int, kept: list[bool], tail: int, keys: list[bytes | None], is_control: bool, fetched: int
    ) -> None:
        self.model.append(gap, kept, tail, keys, is_control)
        self.model.fetch(fetched)

    @precondition(lambda self: self.model.line.fetch_offset < self.model.log_end)
    @rule(batches=st.integers(1, 4))
    def fetch(self, batches: int) -> None:
        self.model.fetch(batches)

    @precondition(lambda self: self.model.line.buffered_bytes)
    @rule()
    def hand_out(self) -> None:
        self.model.hand_out()

    @precondition(lambda self: self.model.hands or self.model.line.buffered_bytes)
    @rule(
        place=some,
        handled=st.integers(0, 6),
        failure=failures,
        lost=some,
        reported=flags,
        opened=flags,
        outputs=st.sampled_from([0, 0, 1]),
    )
    def report(
        self,
        place: int,
        handled: int,
        failure: FailureKind | None,
        lost: int,
        reported: list[bool],
        opened: list[bool],
        outputs: int,
    ) -> None:
        if self.model.hands or self.model.hand_out():
            hand = self.model.hands[place % len(self.model.hands)]
            self.model.report(hand, handled, failure, lost, reported, opened, outputs)

    @precondition(lambda self: self.model.hands or self.model.line.buffered_bytes)
    @rule(handled=st.integers(0, 2), failure=failures, reported=flags)
    def fail(self, handled: int, failure: FailureKind | None, reported: list[bool]) -> None:
        """Retries what has failed until it fails again."""
        self.model.pass_time(8.0)
        if self.model.hands or self.model.hand_out():
            self.model.report(self.model.hands[0], handled, failure, 0, reported, (), 0)

    @precondition(lambda self: self.model.unsent)
    @rule(place=some)
    def acknowledge_sending(self, place: int) -> None:
        tickets = list(self.model.unsent)
        self.model.acknowledge_sending(tickets[place % len(tickets)])

    @precondition(lambda self: self.model.open)
    @rule(place=some, is_acknowledged=st.booleans(), outputs=st.sampled_from([0, 1]))
    def settle(self, place: int, is_acknowledged: bool, outputs: int) -> None:
        offsets = list(self.model.open)
        self.model.settle(offsets[place % len(offsets)], is_acknowledged, outputs)

    @precondition(lambda self: self.model.open or self.model.line.next_time < float("inf"))
    @rule(seconds=st.sampled_from([1.0, 3.0, 10.0]))
    def pass_time(self, seconds: float) -> None:
        self.model.pass_time(seconds)

    @precondition(lambda self: self.model.log)
    @rule(batches=some)
    def truncate_or_drain(self, batches: int) -> None:
        if batches:
            self.model.truncate(min(batches, len(self.model.log)))
        elif self.model.was_handed_out > 3:
            self.model.line.drain()

    @invariant()
    def the_mark_is_right(self) -> None:
        if hasattr(self, "model"):
            self.model.check()

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.model.finish()


TestShard = ShardMachine.TestCase
TestShard.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
