"""What the tasks of a backfill do: they handle the chunks of one partition, the one after the other."""

from collections.abc import Callable
from functools import partial

import trio
from msgspec.structs import replace

from tailrace.client.client_network import client_seams
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime import logs
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.seams import Seams
from tailrace.trigger.pool.worker_pool import WorkerPoolError
from tailrace.trigger.replica.line_runner import Sender
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Shard

from .backfill_planning import BackfillTask, ranges_left
from .backfill_positions import group_of, position_of
from .backfill_progress import ChunkProgress
from .backfill_rows import rows_of_chunk
from .engine_results import LOSSES_MAX, RangeResult, range_result
from .output_archive import OutputArchive
from .range_handling import handle_in_transactions, handle_input, range_parts, stopped_text
from .range_outputs import RangeParts, ShardOutputs, broker_senders, outputs_of
from .row_batches import batches_of

EPOCH = 1
"""The epoch of all commits of a backfill. Transactional ids tell its attempts apart."""
_FINAL = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Refusals that stay until a person does something. A task that waited would do so unseen on its executor."""


def backfill_partition(task: BackfillTask) -> list[RangeResult]:
    """Handles what is left of a partition, and returns what became of each chunk."""
    logs.configure(task.work.log_level, json=task.work.log_json)
    seams = client_seams()
    shard = Shard(task.id.topic, task.partition)
    try:
        return trio.run(partial(handle_partition, task, shard, seams))
    except BaseExceptionGroup as group:
        error = first_error(group)
        if isinstance(error, WorkerPoolError):
            return [range_result(shard, 0, 0, ReplicaMetrics(), str(error))]
        raise error from None


async def handle_partition(task: BackfillTask, shard: Shard, seams: Seams) -> list[RangeResult]:
    """Handles what is left of a partition, with workers that live as long as the task."""
    archive = None if task.output_archive is None else OutputArchive(task, seams.chance, seams.wall_clock)
    progress = None if task.progress is None else ChunkProgress(task.progress, task.topic_id, task.partition)
    kept = archive or progress
    if kept is not None and not ranges_left(task.chunks, kept.position()):
        await trio.lowlevel.checkpoint()
        return []
    async with range_parts(task.work, shard, seams) as parts:
        if archive is not None:
            return await _into_archive(task, shard, parts, archive)
        if progress is not None:
            async with broker_senders(task.work, parts) as senders:
                return await _into_topics(task, shard, parts, senders.of, progress)
        with outputs_of(task.work, shard, group_of(task.id, task.topic_id), parts) as outputs:
            return await into_topics_once(task, shard, parts, outputs)


async def _into_topics(
    task: BackfillTask,
    shard: Shard,
    parts: RangeParts,
    sender_of: Callable[[RangeParts], Sender],
    progress: ChunkProgress,
) -> list[RangeResult]:
    results: list[RangeResult] = []
    for chunk, start in ranges_left(task.chunks, progress.position()):
        counted = replace(parts, metrics=ReplicaMetrics())
        line = ShardLine(shard, start, task.work.config)
        await _handle_chunk(task, line, chunk, start, counted, sender_of(counted))
        if line.stopped is not None:
            results.append(_result(shard, start, line.mark, counted, stopped_text(line.stopped)))
            break
        results.append(_result(shard, start, chunk.end, counted))
        progress.done(start, chunk.end, results[-1])
    return results


async def into_topics_once(
    task: BackfillTask, shard: Shard, parts: RangeParts, outputs: ShardOutputs
) -> list[RangeResult]:
    """Handles what is left of a partition in transactions. It goes on at the committed offset after a lost one."""
    results: list[RangeResult] = []
    losses, reached = 0, -1
    while True:
        position = await _begin(shard, parts, outputs)
        losses = 1 if (position or 0) > reached else losses + 1
        reached = max(reached, position or 0)
        lost = ""
        for chunk, start in ranges_left(task.chunks, position):
            result = await _chunk_once(task, shard, chunk, start, parts, outputs)
            results.append(result)
            if result.problem:
                return results
            if lost := result.lost:
                break
        if not lost:
            return results
        if losses >= LOSSES_MAX:
            raise JobError(f"{shard}: {lost}; {LOSSES_MAX} attempts have failed, so run the backfill again")
        await trio.sleep(spread_pause_seconds(losses, parts.seams.chance))


async def _begin(shard: Shard, parts: RangeParts, outputs: ShardOutputs) -> int | None:
    """Fences earlier attempts, and returns the first offset that is not done; None if nothing is done.

    Raises JobError if the brokers refuse this for good.
    """
    failures = 0
    while True:
        try:
            await outputs.producer.initialize()
            return await position_of(outputs.spus, outputs.offsets.group, shard)
        except (UnreachableError, RefusedError) as error:
            if isinstance(error, RefusedError) and error.code in _FINAL:
                raise JobError(f"{shard}: {reason_of(error)}") from error
            failures += 1
            if failures == 1:
                parts.logger.warning("shard_not_claimed", reason=reason_of(error))
            await trio.sleep(spread_pause_seconds(failures, parts.seams.chance))


async def _chunk_once(
    task: BackfillTask, shard: Shard, chunk: Chunk, start: int, parts: RangeParts, outputs: ShardOutputs
) -> RangeResult:
    counted = replace(parts, metrics=ReplicaMetrics())
    line = ShardLine(shard, start, task.work.config)
    batches = batches_of(rows_of_chunk(task.archive, chunk, start, task.window), task.partition, start)
    done = await handle_in_transactions(
        line, counted, outputs.of(counted.metrics), partial(next, batches, None), chunk.end, EPOCH, start
    )
    problem = "" if line.stopped is None else stopped_text(line.stopped)
    return range_result(shard, start, done.mark, counted.metrics, problem, done.lost)


async def _into_archive(
    task: BackfillTask, shard: Shard, parts: RangeParts, archive: OutputArchive
) -> list[RangeResult]:
    results: list[RangeResult] = []
    while left := ranges_left(task.chunks, archive.position()):
        chunk, start = left[0]
        counted = replace(parts, metrics=ReplicaMetrics())
        line = ShardLine(shard, start, task.work.config)
        output = archive.begin(counted.metrics)
        try:
            await _handle_chunk(task, line, chunk, start, counted, output)
        except BaseException:
            output.discard()
            raise
        if line.stopped is not None:
            output.discard()
            results.append(_result(shard, start, start, counted, stopped_text(line.stopped)))
            break
        # Another attempt of this task may have been faster. It may also end before the last chunk, so this one goes on.
        if archive.commit(start, chunk.end, output):
            results.append(_result(shard, start, chunk.end, counted))
    return results


async def _handle_chunk(
    task: BackfillTask, line: ShardLine, chunk: Chunk, start: int, parts: RangeParts, sender: Sender
) -> None:
    batches = batches_of(rows_of_chunk(task.archive, chunk, start, task.window), task.partition, start)
    await handle_input(line, parts, sender, partial(next, batches, None), lambda now: True)


def _result(shard: Shard, start: int, mark: int, parts: RangeParts, problem: str = "") -> RangeResult:
    return range_result(shard, start, mark, parts.metrics, problem)
