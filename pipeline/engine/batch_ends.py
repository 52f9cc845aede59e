"""Knows where a micro-batch ends in each shard, and marks shards in which it has no record.

A micro-batch may end with offsets that Spark gives to no task: markers of transactions, and records that were aborted
or deleted. The mark of a shard must pass them too, because otherwise the lag of the group never reaches 0.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import closing

import trio

from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.lag.query_progress import ProgressError, read_offset_log
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.embedded.plain_files import read_file
from tailrace.runtime.seams import Seams
from tailrace.trigger.replica.group_offsets import GroupOffsets, Mark
from tailrace.trigger.work import Shard

from .range_outputs import client_of
from .range_work import RangeWork

PATIENCE_SECONDS = 10.0
"""How long the driver tries to mark shards. The next micro-batch marks what was not marked."""


def ends_of_batch(checkpoint: str, number: int, topic: str) -> dict[int, int]:
    """Returns where a micro-batch ends in each shard of a topic. Spark notes that before the micro-batch begins.

    Raises JobError.
    """
    path = os.path.join(checkpoint, "offsets", str(number))
    try:
        positions = read_offset_log(read_file(path).decode(errors="replace"), path)
    except OSError as error:
        raise JobError(f"{path} cannot be read: {error.strerror}") from error
    except ProgressError as error:
        raise JobError(str(error)) from error
    return {each.number: offset for each, offset in positions.items() if each.topic == topic}


def gaps_to_mark(ends: Mapping[int, int], marks: Mapping[int, int], handled: Iterable[int]) -> dict[int, int]:
    """Returns the marks of the shards in which a micro-batch has no record, and whose mark is before its end.

    `marks` are the marks that are known, and `handled` are the shards whose tasks have committed marks themselves.
    """
    by_tasks = set(handled)
    return {each: end for each, end in ends.items() if each not in by_tasks and marks.get(each, 0) < end}


async def mark_gaps(work: RangeWork, gaps: Mapping[int, int], seams: Seams) -> str:
    """Commits marks with the epochs of the driver. Returns why some are not committed; empty if all are."""
    marks = {Shard(work.config.topic, each): Mark(offset, work.epoch_of(each)) for each, offset in gaps.items()}
    failures, problem = 0, ""
    with closing(GroupOffsets(client_of(work, seams), work.config.group, work.member_id)) as offsets:
        with trio.move_on_after(PATIENCE_SECONDS):
            while True:
                try:
                    refusals = await offsets.commit(marks)
                except (UnreachableError, RefusedError) as error:
                    problem = reason_of(error)
                else:
                    refused = {shard: each for shard, each in refusals.items() if each is not None}
                    problem = ", ".join(f"{shard}: {reason_of(each)}" for shard, each in refused.items())
                    if all(each.code == ErrorCode.STALE_MEMBER_EPOCH for each in refused.values()):
                        return problem  # nothing is left to do, or another run owns the shards
                failures += 1
                await trio.sleep(spread_pause_seconds(failures, seams.chance))
    return problem or "the coordinator does not respond"
