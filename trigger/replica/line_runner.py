"""Carries out what the line of a shard decides: workers handle its chunks, and what comes of them is sent.

A replica and a task on Spark run a line in the same way. They differ in where the records come from.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio
from msgspec import Struct

from tailrace.client.transactions.transaction_errors import TransactionLostError
from tailrace.runtime.chance import Chance
from tailrace.runtime.wall_clock import WallClock
from tailrace.trigger.pool.workers import Workers
from tailrace.trigger.shards.line_effects import AttemptFailed, Effects, GivenUp, Handled, Sending, ShardStopped
from tailrace.trigger.shards.pieces import NEVER
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Chunk, Settled

from .line_facts import LineFacts
from .output_sender import OutputRefusedError
from .replica_metrics import ReplicaMetrics
from .wake import Wake

SENDINGS_MAX = 4
"""How many chunks may wait until their output is acknowledged, before the line hands out no further one."""
LOOK_SECONDS_MIN = 0.001


class Sender(Protocol):
    """Stores what handlers have emitted, dead letters, and events that are retried aside."""

    async def send(self, sending: Sending) -> None:
        """Returns when everything is stored.

        Raises OutputRefusedError, and TransactionLostError if what was sent before is lost as well.
        """


class LineParts(Struct, frozen=True):
    """What a runner needs besides its line."""

    workers: Workers
    sender: Sender
    facts: LineFacts
    metrics: ReplicaMetrics
    wall_clock: WallClock
    chance: Chance


class LineRunner:
    """Runs one line."""

    def __init__(
        self, line: ShardLine, parts: LineParts, may_hand_out: Callable[[float], bool], changed: Wake | None = None
    ) -> None:
        """Prepares to run a line. `may_hand_out` says whether events may begin at a time.

        The caller sets `changed` when its answer changes.
        """
        self.line = line
        self.retried: AttemptFailed | None = None
        """The failed attempt for which the shard pauses, until its next event is handled or given up."""
        self.changed = changed or Wake()
        """Wakes the tasks of the line, because something has changed."""
        self.lost: TransactionLostError | None = None
        """Why what was sent is lost. The line ends then, and its mark means nothing."""
        self.turn = trio.Lock()
        """Held while something is sent, and until the line knows that it is sent. So its holder finds the mark exactly
        after what was sent, unless `covers_sent` says otherwise."""
        self._parts = parts
        self._may_begin = may_hand_out
        # Adding to it never waits. It has SENDINGS_MAX entries at most, and one for each chunk and each open event that
        # was handed out before.
        self._to_send, self._sendings = trio.open_memory_channel[Sending](math.inf)

    async def run(self, read: Callable[[], Awaitable[None]]) -> None:
        """Runs until the line is drained. `read` feeds it with records, and is cancelled at the end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(self._send)
            await self._hand_out()
            nursery.cancel_scope.cancel()

    async def room(self) -> int:
        """Waits until the line takes more records, and returns how many bytes."""
        while not (bytes_max := self.line.wants_bytes):
            await self.changed.wait()
        return bytes_max

    def take(self, records: bytes, high_watermark: int, aborted: Sequence[tuple[int, int]] = ()) -> None:
        """Gives whole batches to the line, and which transactions in them were aborted: producer id and first offset.

        Raises KafkaError (CORRUPT_MESSAGE) at a corrupt header.
        """
        self.line.take(records, high_watermark, trio.current_time(), self._parts.wall_clock.now_ms(), aborted)
        if records:
            self._parts.metrics.read_bytes += len(records)
            self.changed.set()

    def settle(self, settled: Settled) -> None:
        """Settles an event that was open when its chunk ended."""
        self.carry_out(self.line.on_settled(settled, trio.current_time()))

    def carry_out(self, effects: Effects) -> None:
        """Logs and counts what the line says, and sends what it wants to be sent."""
        self._parts.facts.note(effects.facts)
        for fact in effects.facts:
            if isinstance(fact, AttemptFailed) and not fact.is_aside:
                self.retried = fact
            elif isinstance(fact, Handled | GivenUp | ShardStopped):
                self.retried = None
        self.changed.set()
        if effects.sending is not None:
            self._to_send.send_nowait(effects.sending)

    def lose(self, lost: TransactionLostError) -> None:
        """Ends the line because what was sent is lost: `run` returns when workers have ended their chunks."""
        self.lost = lost
        self.line.drain()
        self.changed.set()

    async def _hand_out(self) -> None:
        line = self.line
        async with trio.open_nursery() as nursery:
            while not line.is_drained:
                now = trio.current_time()
                looks_again_at = NEVER  # what lets events be handed out also wakes this task
                if self._may_hand_out(now):
                    if (chunk := line.next_chunk(now)) is not None:
                        nursery.start_soon(self._handle, chunk)
                        continue
                    looks_again_at = max(line.next_time, now + LOOK_SECONDS_MIN)
                with trio.move_on_at(looks_again_at) as waiting:
                    await self.changed.wait()
                if waiting.cancelled_caught:
                    self.carry_out(line.on_time(trio.current_time(), *self._moment()))

    def _may_hand_out(self, now: float) -> bool:
        return self._may_begin(now) and self._to_send.statistics().current_buffer_used < SENDINGS_MAX

    async def _handle(self, chunk: Chunk) -> None:
        began = trio.current_time()
        outcome = await self._parts.workers.handle(chunk)
        now = trio.current_time()
        self._parts.metrics.queue_seconds.observe(max(0.0, now - began - outcome.handler_seconds))
        self.carry_out(self.line.on_outcome(chunk, outcome, now, *self._moment()))

    def _moment(self) -> tuple[int, float]:
        """Returns the wall clock's time and a random number."""
        return self._parts.wall_clock.now_ms(), self._parts.chance.fraction()

    async def _send(self) -> None:
        async for sending in self._sendings:
            async with self.turn:
                await self._send_one(sending)
            self.changed.set()

    async def _send_one(self, sending: Sending) -> None:
        try:
            if self.lost is None:
                await self._parts.sender.send(sending)
        except OutputRefusedError as refused:
            self.carry_out(self.line.on_send_refused(sending.ticket, str(refused)))
            return
        except TransactionLostError as lost:
            self.lose(lost)
        self.line.on_sent(sending.ticket)  # the line may end, also if the sending is lost
