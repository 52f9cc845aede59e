"""The task of one assigned shard: claims it, reads it, hands its records to workers, and sends what comes of them.

`ShardLine` decides, and `LineRunner` carries out. While workers handle a chunk, the task reads ahead, as far as the
line takes more, and what earlier chunks emitted is sent. The mark moves when brokers have acknowledged it.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import trio
from msgspec import Struct

from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.client.spu_client import SpuClient
from tailrace.cluster.stream_state.replica_report import ShardReport, ShardState
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock
from tailrace.trigger.config.trigger_config import SeekTo, TriggerConfig
from tailrace.trigger.pool.workers import Workers
from tailrace.trigger.shards.line_effects import AttemptFailed
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Settled, Shard

from .group_offsets import Claim, FencedError, GroupOffsets
from .line_facts import LineFacts
from .line_runner import LineParts, LineRunner
from .output_sender import OutputSender
from .replica_metrics import ReplicaMetrics, ShardGauges
from .shard_reader import READ_WAIT_SECONDS, OutOfRangeError, ShardReader
from .side_topics import SideTopics
from .transaction_commits import TransactionCommits
from .transactional_output import TransactionalOutput
from .wake import Wake

LAST_COMMIT_SECONDS_MAX = 2.0
"""How long the last commit of a shard may take whose time is over."""
_FENCED = "another replica has claimed the shard, although this one is its owner; restart one of them"


class ShardParts(Struct, frozen=True):
    """What the tasks of all shards of a replica share."""

    config: TriggerConfig
    spus: SpuClient
    """The client from which each shard gets its own connections."""
    offsets: GroupOffsets
    workers: Workers
    sender: OutputSender
    new_output: Callable[[Shard, FilteringBoundLogger], TransactionalOutput]
    """Makes the transactional output of a shard, if the guarantee is exactly-once."""
    side_topics: SideTopics
    metrics: ReplicaMetrics
    wall_clock: WallClock
    chance: Chance
    logger: FilteringBoundLogger


class Owner(Protocol):
    """The replica, as the tasks of its shards know it."""

    def may_hand_out(self, now: float) -> bool:
        """Whether events may be given to workers."""

    async def raise_epoch(self, above: int) -> None:
        """Gets epochs above the given one, which a claim has from before the state object was made anew."""


class ShardTask:
    """The handling of one shard by its owner."""

    def __init__(self, shard: Shard, epoch: int, parts: ShardParts, owner: Owner) -> None:
        self.shard = shard
        self.epoch = epoch
        """The epoch of the last write that gave the shard to this replica. Commits carry it."""
        self.committed = -1
        """The last committed offset, or -1. With transactions: where the line began."""
        self._parts = parts
        self._owner = owner
        self._is_retry_topic = shard.topic == parts.config.retry_topic
        self._logger = parts.logger.bind(topic=shard.topic, shard=shard.number)
        # The facts of a retry topic name the shard and the offset that the record had first.
        self._facts = LineFacts(parts.metrics, self._logger.bind(topic=parts.config.topic))
        self._output = parts.new_output(shard, self._logger) if parts.config.is_exactly_once else None
        """What stores output exactly once; None if it is stored at least once."""
        self._commits: TransactionCommits | None = None
        self._losses = 0
        """How many transactions in succession were lost."""
        self._last_loss = ""
        self._runner: LineRunner | None = None
        """What runs the line of the shard, once it is claimed."""
        self._reader: ShardReader | None = None
        self._problem = ""
        """Why the shard cannot be claimed at the moment."""
        self._is_fenced = False
        """Whether another replica has claimed the shard. Nothing is handed out then."""
        self._is_draining = False
        self._changed = Wake()
        self._claiming: trio.CancelScope | None = None

    # What the replica asks

    @property
    def mark(self) -> int:
        """The offset before which everything is handled and acknowledged; -1 before the claim."""
        line = self._line
        return -1 if line is None else line.mark

    @property
    def commits_itself(self) -> bool:
        """Whether the task commits its mark, in transactions."""
        return self._output is not None

    @property
    def _line(self) -> ShardLine | None:
        """The line of the shard; None before the claim."""
        return None if self._runner is None else self._runner.line

    def drain(self) -> None:
        """Hands out no further event. `run` returns when the running ones have ended."""
        self._is_draining = True
        if self._claiming is not None:
            self._claiming.cancel()
        if (line := self._line) is not None:
            line.drain()
        self._changed.set()

    def on_fenced(self) -> None:
        """Hands out no further event, because another replica has claimed the shard."""
        if not self._is_fenced:
            self._is_fenced = True
            self._logger.error("commit_fenced", epoch=self.epoch, mark=self.mark)

    def wake(self) -> None:
        """Makes the task look again, because the lease was renewed or the epoch raised."""
        self._changed.set()

    def knows(self, settled: Settled) -> bool:
        """Whether an open event belongs to this shard, or came to it in the retry topic."""
        line = self._line
        return line is not None and line.knows(settled.shard, settled.offset)

    def settle(self, settled: Settled) -> None:
        """Settles an event that was open when its chunk ended."""
        if self._runner is not None:
            self._runner.settle(settled)

    # The steps

    async def run(self) -> None:
        """Runs until the shard is drained: no event is running, and all output is acknowledged. With transactions, the
        last mark is committed then; otherwise the caller commits it. Cancel it to give up the running events."""
        while True:
            self._runner = self._commits = None
            with trio.CancelScope() as self._claiming:
                if not self._is_draining:
                    line = await self._claimed_line()
                    self._runner = LineRunner(line, self._line_parts, self._may_hand_out, self._changed)
            if self._runner is None:
                return
            if self._is_draining:
                self._runner.line.drain()
            if not await self._run_line(self._runner) or self._is_draining:
                return
            with trio.move_on_after(spread_pause_seconds(self._losses, self._parts.chance)):
                await self._changed.wait()

    async def _run_line(self, runner: LineRunner) -> bool:
        """Runs a line. Returns whether what it sent is lost, so that the shard must be claimed again."""
        read = partial(self._read, runner)
        if self._output is None:
            await runner.run(read)
            return False
        parts = self._parts
        self._commits = TransactionCommits(runner, self._output, parts.metrics, lambda: self.epoch, self.committed)
        await self._commits.run_line(read, parts.config.commit_interval)
        if runner.lost is None:
            return False
        parts.metrics.lost_transactions += 1
        self._losses = 1 if self._commits.committed > self.committed else self._losses + 1
        self.committed, self._last_loss = self._commits.committed, str(runner.lost)
        self._logger.warning("transaction_lost", reason=str(runner.lost), committed=self.committed)
        return True

    async def commit_last(self) -> None:
        """Commits what a task was able to send before it was cancelled."""
        if self._commits is not None:
            with trio.move_on_after(LAST_COMMIT_SECONDS_MAX):
                await self._commits.commit()

    def close(self) -> None:
        """Closes the connections for output, after `run` has ended."""
        if self._output is not None:
            self._output.close()

    @property
    def _line_parts(self) -> LineParts:
        parts = self._parts
        sender = self._output or parts.sender
        return LineParts(parts.workers, sender, self._facts, parts.metrics, parts.wall_clock, parts.chance)

    def _may_hand_out(self, now: float) -> bool:
        return not self._is_fenced and self._owner.may_hand_out(now)

    async def _claimed_line(self) -> ShardLine:
        parts = self._parts
        failures = 0
        while True:
            try:
                if self._is_retry_topic:
                    await parts.side_topics.ensure(self.shard.topic, self.shard.number + 1)
                claim = await self._claim()
            except FencedError as fenced:
                # This replica owns the shard, so the other claim is from before the state object was made anew.
                problem = str(fenced)
                await self._owner.raise_epoch(fenced.epoch)
            except (UnreachableError, RefusedError) as error:
                problem = reason_of(error)
            else:
                self.committed = claim.offset
                self._problem = ""
                self._logger.info(
                    "shard_claimed", offset=claim.offset, epoch=self.epoch, was_committed=claim.was_committed
                )
                return ShardLine(self.shard, claim.offset, parts.config)
            if problem != self._problem:
                self._problem = problem
                self._logger.warning("shard_not_claimed", reason=problem)
            failures += 1
            with trio.move_on_after(spread_pause_seconds(failures, parts.chance)):
                await self._changed.wait()

    async def _claim(self) -> Claim:
        """Raises FencedError, UnreachableError and RefusedError."""
        if self._output is not None:
            return await self._output.claim(self.epoch, self._seek_to)
        return await self._parts.offsets.claim(self.shard, self.epoch, self._seek_to)

    @property
    def _seek_to(self) -> SeekTo:
        return SeekTo.EARLIEST if self._is_retry_topic else self._parts.config.seek_to

    async def _read(self, runner: LineRunner) -> None:
        """Reads as long as the line takes more records."""
        parts, line = self._parts, runner.line
        interval = 0.0 if self._is_retry_topic else parts.config.polling_interval
        self._reader = reader = ShardReader(parts.spus.another(), self.shard, parts.chance, self._logger)
        try:
            while True:
                bytes_max = await runner.room()
                try:
                    found = await reader.read(line.fetch_offset, bytes_max, 0.0 if interval else READ_WAIT_SECONDS)
                    runner.take(found.records, found.end, found.aborted)
                    reader.confirm()
                except OutOfRangeError:
                    await self._find_log_start(runner, reader)
                except KafkaError as error:
                    await reader.pause_after(error.message)
                if interval:
                    await trio.sleep(interval)
        finally:
            reader.close()

    async def _find_log_start(self, runner: LineRunner, reader: ShardReader) -> None:
        """Goes on at the log start. Records before it were deleted. If it lies before what was read, the log was
        truncated or made anew, and all its records are handled."""
        line = runner.line
        try:
            log_start = await self._parts.offsets.log_start(self.shard)
        except (UnreachableError, RefusedError) as error:
            await reader.pause_after(reason_of(error))
            return
        if log_start > line.fetch_offset:
            effects = line.on_log_start(log_start)
        else:
            effects = line.on_log_end(log_start)
        runner.carry_out(effects)

    # What people see

    def gauges(self, wall_ms: int) -> ShardGauges:
        """Returns the gauges of the shard."""
        line = self._line
        if line is None:
            return ShardGauges(0, 0.0)
        return ShardGauges(line.lag, self._lag_seconds(line, wall_ms), len(line.open_events(trio.current_time())))

    def report(self, wall_ms: int) -> ShardReport:
        """Returns what the SC is told about the shard."""
        line = self._line
        if line is None:
            state = ShardState.RELEASING if self._is_draining else ShardState.CLAIMING
            error = self._problem or ("" if self._output is None else self._output.problem)
            return ShardReport(shard=self.shard.number, state=state, epoch=self.epoch, error=error)
        open_events = line.open_events(trio.current_time())
        oldest, seconds = open_events[0] if open_events else (-1, 0.0)
        state = self._state(line, len(open_events))
        offset, attempt, error = self._trouble(line, state)
        return ShardReport(
            shard=self.shard.number,
            state=state,
            epoch=self.epoch,
            marked=line.mark,
            committed=self.committed if self._commits is None else self._commits.committed,
            end=line.high_watermark,
            lag=line.lag,
            held_back=0 if self._reader is None else self._reader.held_back,
            lag_seconds=self._lag_seconds(line, wall_ms),
            offset=offset,
            attempt=attempt,
            error=error,
            open_events=len(open_events),
            oldest_open=oldest,
            oldest_open_seconds=seconds,
        )

    def _state(self, line: ShardLine, open_events: int) -> ShardState:
        if self._is_draining:
            return ShardState.RELEASING
        if line.stopped is not None or self._is_fenced:
            return ShardState.STOPPED
        if self._reader is not None and self._reader.problem:
            return ShardState.UNREACHABLE
        if self._retried is not None:
            return ShardState.RETRYING
        if open_events >= self._parts.config.open_events_max:
            return ShardState.BLOCKED
        return ShardState.HANDLING if line.lag else ShardState.READING

    def _trouble(self, line: ShardLine, state: ShardState) -> tuple[int, int, str]:
        """Returns the offset, the number of attempts and the reason if the shard does not move."""
        if state is ShardState.STOPPED and line.stopped is not None:
            attempts = 0 if line.stopped.failure is None else self._parts.config.retry.attempts
            return line.stopped.offset, attempts, line.stopped.reason
        if self._is_fenced:
            return line.mark, 0, _FENCED
        if state is ShardState.UNREACHABLE and self._reader is not None:
            return -1, 0, self._reader.problem
        if state is ShardState.RETRYING and (retried := self._retried) is not None:
            return retried.failure.offset, retried.attempt, retried.failure.text
        return -1, 0, (self._output or self._parts.sender).problem or self._why_again

    @property
    def _why_again(self) -> str:
        """Why events of the shard are handled again and again; empty if they are not."""
        if self._losses < 2 or self._commits is None or self._commits.committed > self.committed:
            return ""
        return f"its last {self._losses} transactions were lost, so its events are handled again: {self._last_loss}"

    @property
    def _retried(self) -> AttemptFailed | None:
        return None if self._runner is None else self._runner.retried

    @staticmethod
    def _lag_seconds(line: ShardLine, wall_ms: int) -> float:
        """Returns the age of the first record that is not handled, as far as it was read; 0 if there is none."""
        timestamp = line.oldest_timestamp_ms
        return 0.0 if timestamp is None else max(0.0, (wall_ms - timestamp) / 1000)
