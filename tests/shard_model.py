"""A model of a shard for `test_shard_model.py`: a log, workers, and what must be true of the line that serves them."""

from collections import Counter
from collections.abc import Sequence

from shard_workers import SHARD, WALL_MS, offsets_of

from tailrace.protocol.batches.record_batch import HEADER_SIZE
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.trigger.config.trigger_config import OnExhausted, Order, RetryMode, TriggerConfig
from tailrace.trigger.shards.line_effects import AttemptFailed, Effects, GivenUp, ShardStopped
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Output, Settled

NONE_OPEN = 2**62
OUTPUT = Output("invoices", b"k", b"v")


class Batch:
    """A batch of the log: the offsets from `base` to `end`, and the records that compaction has left of it."""

    def __init__(self, base: int, end: int, records: Sequence[Record], is_control: bool) -> None:
        self.base = base
        self.end = end
        self.records = () if is_control else tuple(records)
        data = build_batch(records, base_offset=base, is_control=is_control)
        data[HEADER_SIZE - 38 : HEADER_SIZE - 34] = (end - 1 - base).to_bytes(4, "big")
        self.data = bytes(data)


class Hand:
    """A chunk in the hands of a worker."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.every = offsets_of(chunk)
        """What the worker sees."""
        self.counting = list(self.every)
        """What still counts: the log may have been truncated since."""


class ShardModel:
    """A line and what is known about its shard. Each method acts on both, and checks what the line does."""

    def __init__(self, config: TriggerConfig, bytes_max: int) -> None:
        self.config = config
        self.line = ShardLine(SHARD, 0, config, bytes_max=bytes_max)
        self.bytes_max = bytes_max
        self.now = 0.0
        self.log: list[Batch] = []
        self.generation = 0
        self.records: dict[int, Record] = {}
        self.finished: set[int] = set()
        self.open: dict[int, float] = {}
        self.failures: Counter[int] = Counter()
        """How many attempts of each record have failed."""
        self.together_max: dict[int, int] = {}
        """How many events a batch with this record may have, after larger ones were split."""
        self.hands: list[Hand] = []
        self.unsent: dict[int, int] = {}
        self.was_handed_out = 0
        """How many chunks were handed out."""

    @property
    def log_end(self) -> int:
        return self.log[-1].end if self.log else 0

    # The log

    def append(self, gap: int, kept: Sequence[bool], tail: int, keys: Sequence[bytes | None], is_control: bool) -> None:
        """Appends a batch after a gap. Compaction has kept some of its records, and none at its last `tail` offsets."""
        base = self.log_end + gap
        records = [
            Record(base + place, WALL_MS, key, b"%d/%d" % (self.generation, base + place))
            for place, (is_kept, key) in enumerate(zip(kept, keys, strict=False))
            if is_kept
        ]
        if not records:
            return
        batch = Batch(base, base + len(kept) + tail, records, is_control)
        self.log.append(batch)
        self.records.update({record.offset: record for record in batch.records})

    def fetch(self, batches: int) -> None:
        if not self.line.wants_bytes:
            return
        data = b""
        known = [batch.data for batch in self.log if batch.end <= self.line.fetch_offset]
        if known and batches % 2:
            data = known[-1]  # a response may begin with a batch before the one that was asked for
        for batch in self.log[len(known) :]:
            if not batches or (data and len(data) + len(batch.data) > self.line.wants_bytes):
                data += batch.data[:50]
                break
            data += batch.data
            batches -= 1
        self.line.take(data, self.log_end, self.now, WALL_MS)
        assert self.line.buffered_bytes <= max(self.bytes_max, self.bytes_max // 2 + len(data))

    def truncate(self, batches: int) -> None:
        """Truncates the log by this many batches."""
        del self.log[len(self.log) - batches :]
        self.generation += 1
        end = self.log_end
        self.line.on_log_end(end)
        for hand in self.hands:
            hand.counting = [offset for offset in hand.counting if offset < end]
        self.records = {offset: record for offset, record in self.records.items() if offset < end}
        self.open = {offset: since for offset, since in self.open.items() if offset < end}
        for kept in (self.finished, self.failures, self.together_max):
            for offset in [offset for offset in kept if offset >= end]:
                kept.discard(offset) if isinstance(kept, set) else kept.pop(offset)

    # Workers

    def hand_out(self) -> bool:
        chunk = self.line.next_chunk(self.now)
        if chunk is None:
            is_expired = any(since + self.config.acknowledgement_timeout <= self.now for since in self.open.values())
            assert is_expired or self.line.next_time > self.now, "the line wants to be asked at once, and does nothing"
            return False
        assert not self.line.is_draining
        self.was_handed_out += 1
        hand = Hand(chunk)
        config = self.config
        found = hand.every
        values = {record.offset: record.value for data in chunk.batches for record in read_records(data)}
        for offset in found:
            assert values[offset] == self.records[offset].value, "a record of a log that was truncated is handed out"
            assert offset not in self.finished, "a handled record is handed out"
            assert offset not in self.open, "an open event is handed out"
            assert all(offset not in other.counting for other in self.hands), "a record is handed out twice at once"
            assert self._may_follow(offset, found), "a record is handed out before an earlier one"
        if found and not config.batch_size:
            assert chunk.attempt == self.failures[found[0]] + 1
            assert not any(self.failures[offset] for offset in found[1:])
        if config.batch_size:
            for group in _groups(found, config.batch_size):
                assert all(len(group) <= self.together_max.get(offset, len(group)) for offset in group)
        assert all(self.failures[offset] < config.retry.attempts for offset in found)
        self.hands.append(hand)
        if config.is_explicit:
            assert len(self.open) + sum(len(hand.counting) for hand in self.hands) <= config.open_events_max
        assert len(self.hands) <= (config.max_workers + 1 if config.order is Order.KEY else 1)
        if config.read_batch_size and not config.batch_size:
            assert len(found) <= config.read_batch_size
        return True

    def _may_follow(self, offset: int, chunk: Sequence[int]) -> bool:
        key = self.records[offset].key
        if self.config.order is Order.KEY and key is None:
            return True
        for earlier, record in self.records.items():
            waits = earlier < offset and (self.config.order is Order.SHARD or record.key == key)
            if waits and earlier not in self.finished and earlier not in self.open and earlier not in chunk:
                return False
        return True

    def report(
        self,
        hand: Hand,
        handled: int,
        failure: FailureKind | None,
        lost: int,
        reported: Sequence[bool],
        opened: Sequence[bool],
        outputs: int,
    ) -> None:
        """Lets a worker report that it has handled this many events or batches, and perhaps that the next one has
        failed. The outputs of the last `lost` events that were handled are lost with the worker."""
        self.hands.remove(hand)
        groups = _groups(hand.every, self.config.batch_size or 1)
        handled = min(handled, len(groups)) if failure is None else handled % max(1, len(groups))
        if handled == len(groups):
            failure, lost = None, 0
        safe = max(0, handled - lost) if failure is FailureKind.WORKER_ENDED else handled
        until = groups[safe][0] if safe < len(groups) else hand.chunk.end
        counting = [offset for offset in hand.counting if offset < until]
        done = [offset for group in groups[:safe] for offset in group]
        still_open = [offset for offset, is_open in zip(done, opened, strict=False) if is_open]
        if not self.config.is_explicit:
            still_open = []
        bad: list[int] = []
        found = None
        if failure is not None:
            group = groups[handled]
            bad = [offset for offset, is_bad in zip(group, reported, strict=False) if is_bad]
            if self.config.batch_size and failure is FailureKind.RAISED and bad:
                said = tuple(bad)
            else:
                bad, said = list(group), ()
            found = Failure(failure, group[0], group[-1] + 1, "ValueError", "no", failed_offsets=said)
            counting += [offset for offset in group if offset in hand.counting and offset not in bad]
        outcome = Outcome(
            until,
            len(done),
            outputs=(OUTPUT,) * outputs,
            failure=found,
            handler_seconds=0.001,
            opened=tuple(still_open),
        )
        for offset in counting:
            if offset in still_open:
                self.open[offset] = self.now
            else:
                self.finished.add(offset)
        bad = [offset for offset in bad if offset in hand.counting]
        effects = self.line.on_outcome(hand.chunk, outcome, self.now, WALL_MS, 0.0)
        self._fail(bad, effects, is_reported=bool(found and found.failed_offsets))
        self._send(effects, hand.chunk.first)

    def _fail(self, bad: Sequence[int], effects: Effects, is_reported: bool) -> None:
        """Checks what the line does about events that have failed."""
        config = self.config
        given_up = set()
        before = {offset: self.failures[offset] for offset in bad}
        for attempts in set(before.values()):
            group = [offset for offset in bad if before[offset] == attempts]
            if config.retry.split_batch and len(group) > 1 and not is_reported:
                self.together_max.update(dict.fromkeys(group, -(-len(group) // 2)))
                continue
            for offset in group:
                self.failures[offset] += 1
                if self.failures[offset] == config.retry.attempts:
                    given_up.add(offset)
                elif config.retry.mode is RetryMode.ASIDE:
                    self.finished.add(offset)
        facts = {fact.offset for fact in effects.facts if isinstance(fact, GivenUp)}
        if config.on_exhausted is OnExhausted.STOP:
            assert not facts
            assert not given_up or self.line.stopped is not None
            self.failures.update(dict.fromkeys(given_up, -1))
        else:
            assert facts == given_up, "an event is given up too early or too late"
            self.finished |= given_up
        for fact in effects.facts:
            if isinstance(fact, AttemptFailed):
                assert fact.attempt < config.retry.attempts or fact.is_split
            assert not isinstance(fact, ShardStopped) or config.on_exhausted is OnExhausted.STOP

    def _send(self, effects: Effects, lowest: int) -> None:
        if effects.sending is not None:
            self.unsent[effects.sending.ticket] = lowest

    def acknowledge_sending(self, ticket: int) -> None:
        self.line.on_sent(ticket)
        del self.unsent[ticket]

    def settle(self, offset: int, is_acknowledged: bool, outputs: int) -> None:
        """Settles an open event: the function acknowledges it, or its worker ends."""
        del self.open[offset]
        if is_acknowledged:
            self.finished.add(offset)
        effects = self.line.on_settled(Settled(SHARD, offset, is_acknowledged, (OUTPUT,) * outputs), self.now)
        self._send(effects, offset)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        expired = [o for o, since in self.open.items() if since + self.config.acknowledgement_timeout <= self.now]
        effects = self.line.on_time(self.now, WALL_MS, 0.0)
        for offset in expired:
            del self.open[offset]
        self._fail(expired, effects, is_reported=True)
        self._send(effects, min(expired, default=0))

    # What is always true

    def check(self) -> None:
        """Checks that the mark is exactly before the first record that holds it back."""
        unfinished = [offset for offset in self.records if offset not in self.finished]
        lowest = min([*unfinished, *self.unsent.values()], default=NONE_OPEN)
        mark = self.line.mark
        assert mark <= lowest, "the mark has passed a record that is not handled, or whose outputs are not acknowledged"
        assert mark <= self.line.fetch_offset
        missed = [offset for offset in self.records if mark <= offset < lowest]
        assert not missed, "the mark stays before records that are handled"
        assert sorted(offset for offset, _ in self.line.open_events(self.now)) == sorted(self.open)

    # The end

    def finish(self) -> None:
        """Lets everything succeed, and checks that every record is handled in the end."""
        for _ in range(20 * (len(self.records) + len(self.log) + 10)):
            for ticket in list(self.unsent):
                self.acknowledge_sending(ticket)
            for offset in list(self.open):
                self.settle(offset, is_acknowledged=True, outputs=0)
            before = self.line.fetch_offset
            self.fetch(1000)
            while self.hand_out():
                pass
            if self.hands:
                self.report(self.hands[0], 10**9, None, 0, (), (), 0)
            elif self._is_over():
                break
            elif self.line.fetch_offset == before:
                next_time = self.line.next_time
                assert next_time < float("inf"), "the line waits for nothing"
                self.pass_time(next_time - self.now)
            self.check()
        assert self._is_over(), "the line never ends"
        if self.line.is_draining:
            assert self.line.is_drained
        elif self.line.stopped is None:
            assert self.line.mark == self.log_end
            assert self.line.lag == 0
            assert self.line.buffered_bytes == 0

    def _is_over(self) -> bool:
        if self.hands or self.unsent or self.open:
            return False
        if self.line.is_draining or self.line.stopped is not None:
            return True
        return self.line.fetch_offset == self.log_end and all(offset in self.finished for offset in self.records)


def _groups(offsets: Sequence[int], size: int) -> list[Sequence[int]]:
    """Returns the batches of events that a worker makes of the records of a chunk."""
    return [offsets[place : place + size] for place in range(0, len(offsets), size)]
