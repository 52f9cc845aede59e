"""What the tasks of a backfill do: they handle the chunks of one partition, the one after the other."""

from collections.abc import Callable
from functools import partial

import trio
from msgspec.structs import replace

from tailrace.client.client_network import client_seams
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.runtime import logs
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.seams import Seams
from tailrace.trigger.pool.worker_pool import WorkerPoolError
from tailrace.trigger.replica.line_runner import Sender
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Shard

from .backfill_planning import BackfillTask, ranges_left
from .backfill_progress import ChunkProgress
from .backfill_rows import rows_of_chunk
from .engine_results import RangeResult, range_result
from .output_archive import OutputArchive
from .range_handling import RangeParts, broker_senders, handle_input, range_parts, stopped_text
from .row_batches import batches_of


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
    assert kept is not None, "a backfill keeps its progress"
    if not ranges_left(task.chunks, kept.position()):
        await trio.lowlevel.checkpoint()
        return []
    async with range_parts(task.work, shard, seams) as parts:
        if archive is not None:
            return await _into_archive(task, shard, parts, archive)
        assert progress is not None
        async with broker_senders(task.work, parts) as senders:
            return await _into_topics(task, shard, parts, senders.of, progress)


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
