"""Handles the records of one shard in a task of Spark, as a replica of the trigger does.

The shard is claimed, and its mark is committed, with the epoch that the driver got for the shard. So a second task, or
one of an earlier driver that still runs, moves no offset, and a task that runs again begins at the last mark.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from math import inf

import trio
from msgspec import Struct

from tailrace.client.client_network import client_seams
from tailrace.client.plain_login import Credentials
from tailrace.client.record_producer import RecordProducer
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.runtime import logs
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.embedded.side_loop import BlockingCalls
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.pool.worker_pool import WorkerPool, WorkerPoolError
from tailrace.trigger.pool.workers import Workers
from tailrace.trigger.replica.group_offsets import FencedError, GroupOffsets
from tailrace.trigger.replica.line_facts import LineFacts
from tailrace.trigger.replica.line_runner import LineParts, LineRunner, Sender
from tailrace.trigger.replica.mark_committer import MarkCommitter
from tailrace.trigger.replica.output_sender import OutputSender
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.replica.side_topics import SideTopics
from tailrace.trigger.shards.line_effects import ShardStopped
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Shard

from .engine_results import RangeResult, range_result
from .engine_settings import workers_of_task
from .range_work import RangeWork, with_import_path
from .row_batches import RowBatch, SparkRow, batches_of

STOP_SECONDS_MAX = 2.0
"""How long idle workers may take to end after the last event."""
FENCED = "another run or a replica of the trigger has taken over the shard"

NextBatch = Callable[[], RowBatch | None]
"""Returns the next records, or None at the end. It may block."""


class RangeParts(Struct, frozen=True):
    """What the handling of ranges needs: workers, counters and seams."""

    config: TriggerConfig
    workers: Workers
    metrics: ReplicaMetrics
    seams: Seams
    logger: FilteringBoundLogger


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
        async with range_parts(work, shard, seams) as parts, broker_senders(work, parts) as senders:
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
        start = max(first, await _claim(shard, epoch, parts, offsets))
    except FencedError:
        return range_result(shard, first, first, parts.metrics, FENCED)
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
    facts = LineFacts(parts.metrics, parts.logger)
    line_parts = LineParts(parts.workers, sender, facts, parts.metrics, parts.seams.wall_clock, parts.seams.chance)
    runner = LineRunner(line, line_parts, may_hand_out)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_settle, runner, parts.workers)
        nursery.start_soon(_drain_if_stopped, runner)
        await runner.run(partial(_read, runner, next_batch, end))
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


async def _claim(shard: Shard, epoch: int, parts: RangeParts, offsets: GroupOffsets) -> int:
    """Returns the committed offset of the shard. Raises FencedError if somebody has claimed it with a later epoch."""
    failures = 0
    while True:
        try:
            return (await offsets.claim(shard, epoch, parts.config.seek_to)).offset
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


class BrokerSenders(Struct, frozen=True):
    """What sends output and dead letters to topics, and a client of the brokers."""

    spus: SpuClient
    producer: RecordProducer
    side_topics: SideTopics

    def of(self, parts: RangeParts) -> Sender:
        """Returns a sender that counts in the metrics of these parts."""
        return OutputSender(
            self.producer, self.side_topics, parts.config, parts.metrics, parts.seams.chance, parts.logger
        )


@asynccontextmanager
async def broker_senders(work: RangeWork, parts: RangeParts) -> AsyncIterator[BrokerSenders]:
    """Yields senders while their producer runs.

    Transactional output begins here: a producer with a transactional id for the shard, whose transaction also commits
    the mark.
    """
    seams = parts.seams
    with ExitStack() as stack:
        spus = stack.enter_context(closing(client_of(work, seams)))
        side_topics = stack.enter_context(closing(SideTopics(spus.another(), parts.config.topic, parts.logger)))
        producer = RecordProducer(spus, seams.wall_clock, seams.chance)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.run)
            yield BrokerSenders(spus, producer, side_topics)
            nursery.cancel_scope.cancel()


def client_of(work: RangeWork, seams: Seams) -> SpuClient:
    """Returns a client of the brokers, with the access key of the trigger."""
    config = work.config
    key = config.access_key
    credentials = None if key is None else Credentials(config.access_user or config.name, key)
    return SpuClient(seams.network, [Address(*each) for each in work.brokers], BOOTSTRAP, credentials)
