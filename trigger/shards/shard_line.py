"""The line of one shard: what is handled next, what happens to a failed event, and where the mark is.

The replica feeds fetched batches in, gives chunks to workers, and brings their outcomes back:

    line.take(records, high_watermark, now, wall_ms)      while line.wants_bytes
    effects = line.on_time(now, wall_ms, fraction)        when line.next_time has come
    chunk = line.next_chunk(now)                          until there is none
    effects = line.on_outcome(chunk, outcome, now, wall_ms, fraction)
    effects = line.on_settled(settled, now)               for each open event that a worker settles
    line.on_sent(effects.sending.ticket)                  when everything in `sending` is acknowledged
    line.mark                                             is what may be committed

Three things keep the mark back: a record that is not handled, an event that is not acknowledged, and an output that
the brokers have not acknowledged. The mark is the lowest of their offsets, so that it never passes any of them.
"""

from collections.abc import Sequence

from msgspec import Struct

from tailrace.protocol.codec.primitives import Buffer
from tailrace.trigger.config.trigger_config import OnExhausted, Order, RetryMode, TriggerConfig
from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Output, Settled, Shard

from .delayed_records import DelayedRecords
from .fetched_batches import FetchedBatches
from .in_order import InOrder
from .key_lanes import KeyLanes
from .line_effects import (
    NO_EFFECTS,
    AttemptFailed,
    DeadLetter,
    Effects,
    Fact,
    GivenUp,
    Handled,
    LogTruncated,
    RecordsDeleted,
    RetryAside,
    Sending,
    ShardStopped,
)
from .open_events import OpenEvent, OpenEvents
from .pieces import NEVER, UNLIMITED, Failed
from .record_order import RecordOrder
from .retry_rules import Verdict, pause_seconds, verdict

CHUNK_SECONDS_MAX = 0.05
"""How long a worker handles events of one chunk, so that all shards progress and a hand-over is quick."""
BUFFERED_BYTES_MAX = 4 * 1024 * 1024
"""How many bytes of fetched batches one shard keeps. One batch may exceed this."""
UNSENT_RECORDS_MAX = 10_000
"""A shard hands out nothing while this many records wait for the acknowledgement of the brokers."""


class _Unsent(Struct, frozen=True):
    lowest: int
    end: int
    """The offset after the last event that the records come from."""
    records: int


class _Pending(Struct):
    """Effects that are being collected."""

    outputs: tuple[Output, ...] = ()
    dead_letters: list[DeadLetter] = []
    asides: list[RetryAside] = []
    facts: list[Fact] = []


class ShardLine:
    """Decides about the records of one shard. It has no Trio, clock or chance: times and random numbers are given."""

    def __init__(
        self,
        shard: Shard,
        offset: int,
        config: TriggerConfig,
        *,
        seconds_max: float = CHUNK_SECONDS_MAX,
        bytes_max: int = BUFFERED_BYTES_MAX,
    ) -> None:
        """Begins at an offset: the committed one, or the one to which the trigger seeks."""
        self.shard = shard
        self.high_watermark = offset
        """The offset after the last record that can be read, as far as the line knows."""
        self.stopped: ShardStopped | None = None
        """Why the shard hands out nothing until a person acts."""
        self.is_draining = False
        self._config = config
        self._batches = FetchedBatches(offset, bytes_max)
        self._is_retry_topic = shard.topic == config.retry_topic
        self._order = self._new_order(shard, offset, seconds_max)
        self._open = OpenEvents(config.acknowledgement_timeout)
        self._unsent: dict[int, _Unsent] = {}
        self._sent_end = offset
        """The offset after the last event with records that were sent."""
        self._refused = UNLIMITED
        self._last_ticket = 0
        self._has_pages = config.read_batch_size > 0 and not self._is_retry_topic
        self._page_end = offset if self._has_pages else UNLIMITED
        self._next_page_at = 0.0

    def _new_order(self, shard: Shard, offset: int, seconds_max: float) -> RecordOrder:
        if self._is_retry_topic:
            return DelayedRecords(shard, offset, self._config, self._batches)
        kind = KeyLanes if self._config.order is Order.KEY else InOrder
        return kind(shard, offset, self._config, self._batches, seconds_max)

    # What the replica reads

    @property
    def fetch_offset(self) -> int:
        """The offset from which the next fetch reads."""
        return self._batches.end

    @property
    def wants_bytes(self) -> int:
        """How many bytes the next fetch may return; 0 if enough is here."""
        return 0 if self.is_draining or self.stopped is not None else self._batches.room

    def take(
        self,
        records: Buffer,
        high_watermark: int,
        now: float,
        wall_ms: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Takes the whole batches of a fetch response, but none of its aborted transactions.

        `aborted` has the producer id and the first offset of each. Raises KafkaError (CORRUPT_MESSAGE) at a corrupt
        header.
        """
        self.high_watermark = high_watermark
        self._batches.add(records, now, wall_ms, aborted)

    def on_log_start(self, log_start: int) -> Effects:
        """Goes on at the log start if the next record was deleted. Records that were fetched are still handled."""
        first = self.fetch_offset
        if log_start <= first:
            return NO_EFFECTS
        self._batches.skip_to(log_start)
        self._trim()  # moves past the gap before a batch arrives that begins in it
        return Effects(facts=(RecordsDeleted(first, log_start),))

    def on_log_end(self, log_end: int) -> Effects:
        """Goes on at the log end if the log is shorter than what was fetched: it was truncated, or made anew. The line
        forgets what was handled at or after the new end, and ignores later outcomes for it."""
        until = self.fetch_offset
        if log_end >= until:
            return NO_EFFECTS
        end = self._batches.truncate(log_end)
        self._order.truncate(end)
        self._open.truncate(end)
        self._page_end = min(self._page_end, end) if self._has_pages else UNLIMITED
        self._sent_end = min(self._sent_end, end)
        self.high_watermark = log_end
        return Effects(facts=(LogTruncated(end, until),))

    # What workers handle

    def next_chunk(self, now: float) -> Chunk | None:
        """Hands out the next chunk, or None if nothing may be handled now. Call it again after each event of the line,
        and at `next_time`."""
        if not self._may_hand_out:
            return None
        room = self._room
        chunk = self._order.next_chunk(now, self._page_end, room)
        if chunk is None and self._order.needs_records and self._turns_page(now):
            chunk = self._order.next_chunk(now, self._page_end, room)
        return chunk

    @property
    def next_time(self) -> float:
        """When to call `on_time` and `next_chunk` again if nothing happens before. It is known after `next_chunk` has
        returned None."""
        next_time = self._open.next_time
        if self._may_hand_out and self._room:
            next_time = min(next_time, self._order.next_time)
            if self._page_end < self._batches.end and self._order.needs_records:
                next_time = min(next_time, self._next_page_at)
        return next_time

    @property
    def _may_hand_out(self) -> bool:
        return not self.is_draining and self.stopped is None and self.unsent_records < UNSENT_RECORDS_MAX

    @property
    def _room(self) -> int:
        """How many records may be handed out until the window of open events is full."""
        if not self._config.is_explicit:
            return UNLIMITED
        return max(0, self._config.open_events_max - len(self._open) - self._order.records_in_hand)

    def _turns_page(self, now: float) -> bool:
        """Allows the records of the next read, one polling interval after the last one."""
        if self._page_end >= self._batches.end or now < self._next_page_at:
            return False
        size = self._config.read_batch_size
        self._page_end, _ = self._batches.offset_after(self._page_end, size, self._batches.end)
        self._next_page_at = now + self._config.polling_interval
        return True

    def on_outcome(self, chunk: Chunk, outcome: Outcome, now: float, wall_ms: int, fraction: float) -> Effects:
        """Takes the outcome of a chunk, also while the line drains. `fraction` is a random number from 0 to 1."""
        remains = self._order.take_back(chunk, outcome)
        pending = _Pending(outputs=outcome.outputs)
        if outcome.events:
            pending.facts.append(Handled(outcome.events, outcome.handler_seconds))
        for event in self._open.open(remains.opened, now):
            self._repeat(event, now)
        for failed in remains.failed:
            self._decide(failed, now, wall_ms, fraction, pending)
        return self._effects(pending, remains.first, _end_of_events(outcome))

    def knows(self, shard: Shard, offset: int) -> bool:
        """Returns whether the line has a record that was first in a shard at an offset: a record of its own shard, or
        one of the retry topic. If two lines know a record, the line of the retry topic has it."""
        return self._order.own_offset(shard, offset) is not None

    def on_settled(self, settled: Settled, now: float) -> Effects:
        """Settles an open event: the function has acknowledged it, or its worker has ended. An event that is no longer
        open is ignored, except for its outputs."""
        offset = self._order.own_offset(settled.shard, settled.offset)
        if offset is None:
            return self._effects(_Pending(outputs=settled.outputs), UNLIMITED, 0)
        event = self._open.settle(offset)
        if event is not None:
            if settled.is_acknowledged:
                self._order.forget(offset)
            else:
                self._repeat(event, now)
        elif self._order.is_in_hand(offset):
            self._open.settle_early(offset, settled.is_acknowledged)
        return self._effects(_Pending(outputs=settled.outputs), offset, offset + 1)

    def _repeat(self, event: OpenEvent, now: float) -> None:
        """Hands an event out again because its worker ended. This is not the event's fault, so the attempt does not
        count."""
        offset = self._order.first_offset(event.offset)
        failure = Failure(FailureKind.WORKER_ENDED, offset, offset + 1, "WorkerEnded")
        self._order.retry(Failed((event.offset,), event.offset + 1, event.attempts - 1, failure), now)

    def on_time(self, now: float, wall_ms: int, fraction: float) -> Effects:
        """Hands out again, or gives up, the events that were not acknowledged in time."""
        expired = self._open.take_expired(now)
        if not expired:
            return NO_EFFECTS
        pending = _Pending()
        for event in expired:
            offset = self._order.first_offset(event.offset)
            failure = Failure(
                FailureKind.UNACKNOWLEDGED,
                offset,
                offset + 1,
                "NotAcknowledged",
                f"the function did not acknowledge the event within {self._config.acknowledgement_timeout:g} s",
            )
            failed = Failed((event.offset,), event.offset + 1, event.attempts, failure)
            self._decide(failed, now, wall_ms, fraction, pending)
        offsets = [event.offset for event in expired]
        return self._effects(pending, min(offsets), max(offsets) + 1)

    def on_sent(self, ticket: int) -> None:
        """Releases the mark from a `Sending` whose records the brokers have all acknowledged."""
        unsent = self._unsent.pop(ticket, None)
        if unsent is not None:
            self._sent_end = max(self._sent_end, min(unsent.end, self._batches.end))

    def on_send_refused(self, ticket: int, reason: str) -> Effects:
        """Stops the shard because the brokers will never take what has to be sent. The mark stays before it."""
        unsent = self._unsent.pop(ticket, None)
        if unsent is None:
            return NO_EFFECTS
        self._refused = min(self._refused, unsent.lowest)
        return self._stop(ShardStopped(unsent.lowest, reason))

    def drain(self) -> None:
        """Hands out nothing from now on. Outcomes still count."""
        self.is_draining = True

    def end_input(self, end: int = 0) -> None:
        """Expects no further record. A list of events that is not full waits no longer. If the input ends at `end`, the
        offsets before it that have no record are a gap, and the mark passes them."""
        self._batches.skip_to(end)
        self._batches.has_ended = True

    # How far the shard is

    @property
    def is_drained(self) -> bool:
        """Whether the line drains or has handled all its input, no worker has a chunk, and everything is sent. The
        mark is final then."""
        hands_out_nothing = self.is_draining or (self._batches.has_ended and self._handled >= self._batches.end)
        return hands_out_nothing and not self._order.chunks_in_hand and not self._unsent

    @property
    def mark(self) -> int:
        """The offset before which everything is handled, acknowledged, and its outputs are acknowledged. Only a
        truncation of the log moves it back."""
        unsent = min((unsent.lowest for unsent in self._unsent.values()), default=UNLIMITED)
        return min(self._handled, unsent, self._refused)

    @property
    def covers_sent(self) -> bool:
        """Whether everything that was sent comes from records before the mark.

        It does not if single events of a list have failed: the list has emitted, and the mark is at the first of them.
        """
        return self._sent_end <= self.mark

    @property
    def lag(self) -> int:
        """How many offsets of the shard are not marked."""
        return max(0, self.high_watermark - self.mark)

    @property
    def oldest_timestamp_ms(self) -> int | None:
        """The timestamp of the batch with the first record that is not handled; None if no such batch was fetched, or
        if it has no timestamp."""
        batch = self._batches.find(self._handled)
        return None if batch is None or batch.header.base_timestamp < 0 else batch.header.base_timestamp

    @property
    def buffered_bytes(self) -> int:
        return self._batches.memory

    @property
    def chunks_in_hand(self) -> int:
        """How many chunks workers have."""
        return self._order.chunks_in_hand

    @property
    def unsent_records(self) -> int:
        """How many outputs, dead letters and retries the brokers have not acknowledged."""
        return sum(unsent.records for unsent in self._unsent.values())

    def open_events(self, now: float) -> Sequence[tuple[int, float]]:
        """Returns offset and age in seconds of each event that waits for its acknowledgement, oldest first."""
        return [(self._order.first_offset(offset), age) for offset, age in self._open.ages(now)]

    @property
    def _handled(self) -> int:
        return min(self._order.lowest, self._open.lowest)

    # Failed events

    def _decide(self, failed: Failed, now: float, wall_ms: int, fraction: float, pending: _Pending) -> None:
        retry, failure = self._config.retry, failed.failure
        if retry.split_batch and len(failed.offsets) > 1 and not failure.failed_offsets:
            self._order.split(failed)
            pending.facts.append(AttemptFailed(failure, failed.attempts, 0.0, is_split=True))
            return
        age = 0.0 if retry.max_age is None else self._age(failed.offsets[0], wall_ms)
        decision = verdict(retry, failure, failed.attempts, age)
        if decision is not Verdict.AGAIN:
            self._give_up(failed, pending, is_too_old=decision is Verdict.TOO_OLD)
            return
        pause = pause_seconds(retry, failed.attempts, fraction)
        if retry.mode is RetryMode.IN_ORDER:
            pending.facts.append(AttemptFailed(failure, failed.attempts, pause))
            self._order.retry(failed, now + pause)
        else:
            self._retry_aside(failed, wall_ms, pause, pending)

    def _retry_aside(self, failed: Failed, wall_ms: int, pause: float, pending: _Pending) -> None:
        pending.facts.append(AttemptFailed(failed.failure, failed.attempts, pause, is_aside=True))
        due_ms = wall_ms + round(pause * 1000)
        for offset in failed.offsets:
            original = self._order.original(offset)
            if original.record is not None:  # a broken worker may blame an offset that has no record
                pending.asides.append(
                    RetryAside(
                        original.shard, original.offset, original.record, failed.failure, failed.attempts + 1, due_ms
                    )
                )
            self._order.forget(offset)

    def _give_up(self, failed: Failed, pending: _Pending, *, is_too_old: bool) -> None:
        failure, attempts = failed.failure, failed.attempts
        if self._config.on_exhausted is OnExhausted.STOP:
            self._order.retry(failed, NEVER)
            stop = ShardStopped(failed.offsets[0], failure.text, failure)
            pending.facts.extend(self._stop(stop).facts)
            return
        is_dead_letter = self._config.on_exhausted is OnExhausted.DEAD_LETTER
        for offset in failed.offsets:
            original = self._order.original(offset)
            pending.facts.append(GivenUp(original.offset, failure, attempts, is_dead_letter, is_too_old))
            if is_dead_letter:
                pending.dead_letters.append(
                    DeadLetter(original.shard, original.offset, original.record, original.batch, failure, attempts)
                )
            self._order.forget(offset)

    def _stop(self, stop: ShardStopped) -> Effects:
        if self.stopped is not None:
            return NO_EFFECTS
        self.stopped = stop
        return Effects(facts=(stop,))

    def _age(self, offset: int, wall_ms: int) -> float:
        record = self._order.original(offset).record
        return 0.0 if record is None or record.timestamp < 0 else (wall_ms - record.timestamp) / 1000

    def _effects(self, pending: _Pending, lowest: int, end: int) -> Effects:
        """Makes the effects of one event of the line, which come from records before `end`. The mark stays at or before
        `lowest` until they are sent."""
        records = len(pending.outputs) + len(pending.dead_letters) + len(pending.asides)
        sending = None
        if records:
            self._last_ticket += 1
            end = max([end, *(each.offset + 1 for each in pending.dead_letters)])
            self._unsent[self._last_ticket] = _Unsent(lowest, end, records)
            sending = Sending(self._last_ticket, pending.outputs, tuple(pending.dead_letters), tuple(pending.asides))
        self._trim()
        return Effects(sending, pending.facts)

    def _trim(self) -> None:
        handled = self._handled
        self._batches.drop_before(handled)
        self._open.forget_early(handled)


def _end_of_events(outcome: Outcome) -> int:
    """Returns the offset after the last event that may have emitted something."""
    failure = outcome.failure
    if failure is not None and failure.failed_offsets:
        return max(outcome.next_offset, failure.end)
    return outcome.next_offset
