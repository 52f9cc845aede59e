"""Handles the records of one shard in a task of Spark, as a replica of the trigger does.

The shard is claimed, and its mark is committed, with the epoch that the driver got for the shard. So a second task, or
one of an earlier driver that still runs, moves no offset, and a task that runs again begins at the last mark.

With exactly-once, output and marks are in transactions of the shard's transactional id. A task that runs again fences
the earlier attempt with this id before it reads the mark. If its transaction is lost, the task ends and says so: it
has read its rows already, so the driver has the micro-batch handled again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, closing
from functools import partial
from math import inf

import trio
from msgspec import Struct

from tailrace.client.client_network import client_seams
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.runtime import logs
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.embedded.side_loop import BlockingCalls
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import SeekTo
from tailrace.trigger.pool.worker_pool import WorkerPool, WorkerPoolError
from tailrace.trigger.pool.workers import Workers
from tailrace.trigger.replica.group_offsets import Claim, FencedError, GroupOffsets
from tailrace.trigger.replica.line_facts import LineFacts
from tailrace.trigger.replica.line_runner import LineParts, LineRunner, Sender
from tailrace.trigger.replica.mark_committer import MarkCommitter
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.replica.transaction_commits import TransactionCommits
from tailrace.trigger.replica.transactional_output import TransactionalOutput
from tailrace.trigger.shards.line_effects import ShardStopped
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Shard

from .engine_results import RangeResult, range_result
from .engine_settings import workers_of_task
from .range_outputs import RangeParts, broker_senders, outputs_of
from .range_work import RangeWork, with_import_path
from .row_batches import RowBatch, SparkRow, batches_of

STOP_SECONDS_MAX = 2.0
"""How long idle workers may take to end after the last event."""
FENCED = "another run or a replica of the trigger has taken over the shard"

_SEEK_TO = SeekTo.EARLIEST
"""Where the group begins if brokers have forgotten its offset, as they do after days without a commit.

Spark knows where the rows begin, so the task handles all of them, whatever the trigger seeks.
"""

NextBatch = Callable[[], RowBatch | None]
"""Returns the next records, or None at the end. It may block."""


def handle_now(work: RangeWork, number: int, first: int, rows: Iterable[SparkRow]) -> RangeResult:
    """Handles the rows of one shard, which begin at the offset `first`, and returns what became of them."""
    logs.configure(work.log_level, json=work.log_json)
    seams = client_seams()
    try:
        return trio.run(partial(handle_range, work, Shard(work.config.topic, number), first, rows, seams))
    except BaseExceptionGroup as group:
        raise first_error(group) from None


async def handle_range(
    work: RangeWork, shard: Shard, first: int, rows: Iterable[SparkRow], seams: Seams
) -> RangeResult:
    """Claims the shard, handles its rows and commits its mark."""
    try:
        async with range_parts(work, shard, seams) as parts:
            if work.config.is_exactly_once:
                with outputs_of(work, shard, work.config.group, parts) as outputs:
                    return await handle_once(work, shard, first, rows, parts, outputs.of(parts.metrics))
            async with broker_senders(work, parts) as senders:
                offsets = GroupOffsets(senders.spus.another(), work.config.group, work.member_id)
                with closing(offsets):
                    return await handle_claimed(work, shard, first, rows, parts, senders.of(parts), offsets)
    except BaseExceptionGroup as group:
        error = first_error(group)
        if isinstance(error, WorkerPoolError):
            return range_result(shard, first, first, ReplicaMetrics(), str(error))
        raise error from None


async def handle_claimed(
    work: RangeWork,
    shard: Shard,
    first: int,
    rows: Iterable[SparkRow],
    parts: RangeParts,
    sender: Sender,
    offsets: GroupOffsets,
) -> RangeResult:
    """Handles the rows of a shard from its mark on, with workers that run already."""
    epoch = work.epoch_of(shard.number)
    try:
        claim = await _claimed(partial(offsets.claim, shard, epoch, _SEEK_TO), parts)
    except FencedError:
        return range_result(shard, first, first, parts.metrics, FENCED)
    start = max(first, claim.offset)
    marked = MarkedRange(ShardLine(shard, start, work.config), shard, epoch)
    committer = MarkCommitter(offsets, parts.metrics, parts.logger)
    batches = batches_of(rows, shard.number, start)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_commit_periodically, marked, committer, parts)
        await handle_input(
            marked.line,
            parts,
            sender,
            partial(next, batches, None),
            lambda now: not marked.is_fenced,
            work.ends.get(shard.number, 0),
        )
        nursery.cancel_scope.cancel()
    await _commit_last(marked, committer, parts)
    stopped = marked.line.stopped
    problem = FENCED if marked.is_fenced else stopped_text(stopped) if stopped else ""
    return range_result(shard, first, marked.mark, parts.metrics, problem)


async def handle_once(
    work: RangeWork, shard: Shard, first: int, rows: Iterable[SparkRow], parts: RangeParts, output: TransactionalOutput
) -> RangeResult:
    """Handles the rows of a shard from its mark on, and stores what they emit exactly once."""
    epoch = work.epoch_of(shard.number)
    try:
        claim = await _claimed(partial(output.claim, epoch, _SEEK_TO), parts)
    except FencedError:
        return range_result(shard, first, first, parts.metrics, FENCED)
    start = max(first, claim.offset)
    batches = batches_of(rows, shard.number, start)
    end = work.ends.get(shard.number, 0)
    line = ShardLine(shard, start, work.config)
    done = await handle_in_transactions(line, parts, output, partial(next, batches, None), end, epoch, claim.offset)
    problem = "" if line.stopped is None else stopped_text(line.stopped)
    return range_result(shard, first, done.mark, parts.metrics, problem, done.lost)


class InTransactions(Struct, frozen=True):
    """What became of an input in transactions."""

    mark: int
    """The offset before which everything is handled, and committed with its output."""
    lost: str
    """Why a transaction was lost. What was handled after the mark does not count then, and is handled again."""


async def handle_in_transactions(
    line: ShardLine,
    parts: RangeParts,
    output: TransactionalOutput,
    next_batch: NextBatch,
    end: int,
    epoch: int,
    committed: int,
) -> InTransactions:
    """Has all records of an input handled. Returns when all of it is committed, or when the line has stopped or lost
    its transaction.

    `committed` is the committed offset of the shard, and `epoch` that of its owner. The mark passes the offsets before
    `end` that have no record.
    """
    runner = _runner(line, parts, output, lambda now: True)
    commits = TransactionCommits(runner, output, parts.metrics, lambda: epoch, committed)
    await _run_input(runner, parts, next_batch, end, partial(commits.run_line, interval=parts.config.commit_interval))
    if runner.lost is None:
        return InTransactions(commits.committed, "")
    parts.metrics.lost_transactions += 1
    parts.logger.warning("transaction_lost", reason=str(runner.lost), committed=commits.committed)
    return InTransactions(commits.committed, str(runner.lost))


def stopped_text(stopped: ShardStopped) -> str:
    """Says where and why a shard has stopped."""
    return f"stopped at offset {stopped.offset}: {stopped.reason}"


class MarkedRange:
    """A line with its mark, as the committer knows it."""

    def __init__(self, line: ShardLine, shard: Shard, epoch: int) -> None:
        self.line = line
        self.shard = shard
        self.epoch = epoch
        self.committed = -1
        self.is_fenced = False
        """Whether somebody else has claimed the shard. Nothing is handed out then."""

    @property
    def mark(self) -> int:
        return self.line.mark

    def on_fenced(self) -> None:
        """Hands out nothing more."""
        self.is_fenced = True
        self.line.drain()


async def handle_input(
    line: ShardLine,
    parts: RangeParts,
    sender: Sender,
    next_batch: NextBatch,
    may_hand_out: Callable[[float], bool],
    end: int = 0,
) -> None:
    """Has all records of an input handled. Returns when what they emitted is stored, or when the line has stopped.

    The mark of the line passes the offsets before `end` that have no record.
    """
    runner = _runner(line, parts, sender, may_hand_out)
    await _run_input(runner, parts, next_batch, end, runner.run)


def _runner(line: ShardLine, parts: RangeParts, sender: Sender, may_hand_out: Callable[[float], bool]) -> LineRunner:
    facts = LineFacts(parts.metrics, parts.logger)
    line_parts = LineParts(parts.workers, sender, facts, parts.metrics, parts.seams.wall_clock, parts.seams.chance)
    return LineRunner(line, line_parts, may_hand_out)


async def _run_input(
    runner: LineRunner,
    parts: RangeParts,
    next_batch: NextBatch,
    end: int,
    run: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]],
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_settle, runner, parts.workers)
        nursery.start_soon(_drain_if_stopped, runner)
        await run(partial(_read, runner, next_batch, end))
        nursery.cancel_scope.cancel()


async def _read(runner: LineRunner, next_batch: NextBatch, end: int) -> None:
    calls = BlockingCalls()
    while True:
        await runner.room()
        batch = await calls.run(next_batch)
        if batch is None:
            break
        runner.take(batch.data, batch.end)
    runner.line.end_input(end)
    runner.changed.set()


async def _settle(runner: LineRunner, workers: Workers) -> None:
    while True:
        for settled in await workers.next_settled():
            runner.settle(settled)


async def _drain_if_stopped(runner: LineRunner) -> None:
    while runner.line.stopped is None:
        await runner.changed.wait()
    runner.line.drain()
    runner.changed.set()


async def _claimed(claim: Callable[[], Awaitable[Claim]], parts: RangeParts) -> Claim:
    """Claims the shard as soon as that is possible. Raises FencedError if it was claimed with a later epoch."""
    failures = 0
    while True:
        try:
            return await claim()
        except (UnreachableError, RefusedError) as error:
            failures += 1
            if failures == 1:
                parts.logger.warning("shard_not_claimed", reason=reason_of(error))
            await trio.sleep(spread_pause_seconds(failures, parts.seams.chance))


async def _commit_periodically(marked: MarkedRange, committer: MarkCommitter, parts: RangeParts) -> None:
    while True:
        await trio.sleep(parts.config.commit_interval)
        await committer.commit([marked])


async def _commit_last(marked: MarkedRange, committer: MarkCommitter, parts: RangeParts) -> None:
    failures = 0
    while not await committer.commit([marked]):
        failures += 1
        await trio.sleep(spread_pause_seconds(failures, parts.seams.chance))


@asynccontextmanager
async def range_parts(work: RangeWork, shard: Shard, seams: Seams) -> AsyncIterator[RangeParts]:
    """Yields what ranges of a shard are handled with, while its workers run.

    Raises a group with WorkerPoolError if the function cannot be loaded.
    """
    logger = logs.get_logger().bind(
        trigger=work.config.name, replica=work.member_id, topic=shard.topic, shard=shard.number
    )
    pool = WorkerPool(
        work.source,
        with_import_path(work.config),
        workers_of_task(work.config),
        logger,
        seams.chance,
        log_level=work.log_level,
        log_json=work.log_json,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(pool.run)
        pool.set_lease(inf)
        yield RangeParts(work.config, pool, ReplicaMetrics(), seams, logger)
        await pool.stop(STOP_SECONDS_MAX)
        nursery.cancel_scope.cancel()
