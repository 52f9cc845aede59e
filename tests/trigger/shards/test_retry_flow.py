"""Expectations of a shard and its partition of the retry topic together, when events fail and the replica dies."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from shard_workers import SHARD, WALL_MS, batch_of, config_with, failed, handled, offsets_of

from tailrace.protocol.batches.records import Record, build_batch
from tailrace.trigger.config.trigger_config import Order, Retry, RetryMode
from tailrace.trigger.shards.line_effects import Effects
from tailrace.trigger.shards.retry_records import retry_output
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Shard

RECORDS = 12
ATTEMPTS = 3


class _Flow:
    """A shard, its retry topic, and a replica that may die. What a replica has sent is stored, acknowledged or not."""

    def __init__(self, order: Order) -> None:
        retry = Retry(attempts=ATTEMPTS, mode=RetryMode.ASIDE, backoff=(1.0, 4.0))
        self.config = config_with(retry=retry, order=order, max_workers=2)
        self.retries: list[bytes] = []
        self.now = 0.0
        self.calls: Counter[int] = Counter()
        self.succeeded: Counter[int] = Counter()
        self.dead: Counter[int] = Counter()
        self.marks = (0, 0)
        self.begin()

    def begin(self) -> None:
        """Starts a replica, which reads both from their committed marks."""
        self.main = ShardLine(SHARD, self.marks[0], self.config)
        self.aside = ShardLine(Shard(self.config.retry_topic, SHARD.number), self.marks[1], self.config)
        self.main.take(batch_of(range(RECORDS)), RECORDS, self.now, self._wall_ms)

    @property
    def _wall_ms(self) -> int:
        return WALL_MS + round(self.now * 1000)

    def step(self, fails: bool, is_acknowledged: bool) -> bool:
        """Handles one chunk. Returns whether there was one."""
        self.aside.take(b"".join(self.retries), len(self.retries), self.now, self._wall_ms)
        for line in (self.aside, self.main):
            chunk = line.next_chunk(self.now)
            if chunk is None:
                continue
            assert chunk.shard == SHARD
            first = offsets_of(chunk)[0]
            assert chunk.attempt <= ATTEMPTS
            done = offsets_of(chunk) if not fails else [first]
            self.calls.update(done)
            if not fails:
                self.succeeded.update(done)
            outcome = failed(first) if fails else handled(chunk)
            self._send(line, line.on_outcome(chunk, outcome, self.now, self._wall_ms, 0.0), is_acknowledged)
            return True
        return False

    def _send(self, line: ShardLine, effects: Effects, is_acknowledged: bool) -> None:
        if effects.sending is None:
            return
        for aside in effects.sending.asides:
            output = retry_output(aside, self.config.retry_topic)
            record = Record(len(self.retries), self._wall_ms, output.key, output.value, list(output.headers))
            self.retries.append(bytes(build_batch([record], base_offset=record.offset)))
        self.dead.update(letter.offset for letter in effects.sending.dead_letters)
        if is_acknowledged:
            line.on_sent(effects.sending.ticket)

    def commit(self) -> None:
        self.marks = (self.main.mark, self.aside.mark)

    def finish(self) -> None:
        """Lets everything succeed with a new replica."""
        self.begin()
        for _ in range(200):
            while self.step(fails=False, is_acknowledged=True):
                pass
            self.now += 1.0
        assert (self.main.mark, self.aside.mark) == (RECORDS, len(self.retries))


steps = st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from("....tcd")), max_size=40)


@given(steps=steps, order=st.sampled_from(Order))
@settings(max_examples=60, deadline=None)
def test_no_event_is_lost_when_a_replica_dies(steps: list[tuple[bool, bool, str]], order: Order) -> None:
    flow = _Flow(order)
    for fails, is_acknowledged, then in steps:
        flow.step(fails, is_acknowledged)
        if then == "t":
            flow.now += 2.0
        elif then == "c":
            flow.commit()
        elif then == "d":
            flow.begin()
    flow.finish()
    assert set(flow.succeeded) | set(flow.dead) == set(range(RECORDS))


@given(steps=steps, order=st.sampled_from(Order))
@settings(max_examples=60, deadline=None)
def test_every_event_ends_once_within_its_attempts_in_a_calm_run(
    steps: list[tuple[bool, bool, str]], order: Order
) -> None:
    flow = _Flow(order)
    for fails, _, then in steps:
        flow.step(fails, is_acknowledged=True)
        flow.now += 2.0 if then == "t" else 0.0
    for _ in range(200):
        while flow.step(fails=False, is_acknowledged=True):
            pass
        flow.now += 1.0
    ends = flow.succeeded + flow.dead
    assert all(ends[offset] == 1 for offset in range(RECORDS))
    assert max(flow.calls.values()) <= ATTEMPTS
    assert all(flow.calls[offset] == ATTEMPTS for offset in flow.dead)
