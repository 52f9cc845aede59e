"""Moves the replicas of partitions with Kafka's protocol, and waits until the new ones are live.

The brokers copy the replicas by themselves. So a command that is stopped changes nothing: it only stops waiting.
"""

from collections.abc import Mapping, Sequence

import trio
from msgspec import Struct, field

from tailrace.cli.options.sc_options import StoppedError
from tailrace.cli.output.progress import Progress
from tailrace.client.admin_client import AdminClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from tailrace.runtime.process import Stop, run_stoppable

from .factor_plan import Row

PARTITIONS_AT_ONCE = 50
"""How many partitions move at a time, so that clients are not slowed down by many copies."""
LOOK_AGAIN_SECONDS_MIN = 0.1
LOOK_AGAIN_SECONDS_MAX = 1.0
_NOT_NEEDED = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


class MoveResult(Struct):
    """What became of some moves."""

    moved: list[Partition] = field(default_factory=list)
    refused: dict[Partition, str] = field(default_factory=dict)
    """Why other partitions were not moved, in one sentence each."""


async def move_replicas(admin: AdminClient, rows: Mapping[Partition, Row], *, doing: str) -> MoveResult:
    """Moves partitions and waits until their new replicas are live, with a report of the progress.

    The preferred leaders are elected at the end. Raises StoppedError if a signal stops the waiting.
    """
    result = MoveResult()
    progress = Progress(len(rows), wanted=True, doing=doing, amount=str)

    async def work(stop: Stop) -> None:
        partitions = list(rows)
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            batch = partitions[start : start + PARTITIONS_AT_ONCE]
            with stop.ends_waiting():
                await _move_some(admin, {each: rows[each] for each in batch}, result, progress)
            if stop.signal is not None:
                return
        if result.moved:
            await _elect_preferred(admin, result.moved)

    try:
        stop = await run_stoppable(work)
    finally:
        progress.clear()
    if stop.signal is not None:
        raise StoppedError(
            f"stopped waiting after {len(result.moved)} of {len(rows)} partitions. What has begun goes on; `tailrace "
            "partition moves` shows it, and `tailrace partition move --cancel` gives it up",
            stop.signal,
        )
    return result


async def start_moves(admin: AdminClient, rows: Mapping[Partition, Row | None]) -> dict[Partition, str]:
    """Starts moves, or cancels them where the row is None. Returns why some were refused."""
    answers = await admin.reassign(rows)
    return {each: str(answer) for each, answer in answers.items() if answer is not None}


async def _elect_preferred(admin: AdminClient, partitions: Sequence[Partition]) -> None:
    """Elects preferred leaders. A partition whose preferred leader cannot lead now keeps its leader."""
    for partition, answer in (await admin.elect_leaders(partitions)).items():
        if answer is not None and answer.code not in _NOT_NEEDED:
            raise RefusedError(f"{partition}: {answer}", answer.code)


async def _move_some(admin: AdminClient, rows: Mapping[Partition, Row], result: MoveResult, progress: Progress) -> None:
    result.refused |= await start_moves(admin, rows)
    waiting = {each: row for each, row in rows.items() if each not in result.refused}
    pause = LOOK_AGAIN_SECONDS_MIN
    suspects: set[Partition] = set()  # A second look decides: the move may have ended between the two requests.
    while True:
        found = await _found(admin, waiting)
        moving = (await admin.reassignments()).keys()
        unmoved = {each for each, row in waiting.items() if each not in moving and _is_given_up(found.get(each), row)}
        for partition, row in list(waiting.items()):
            there = found.get(partition)
            if there is not None and is_moved(there, row):
                result.moved.append(partition)
                del waiting[partition]
            elif partition in suspects and partition in unmoved:
                result.refused[partition] = "the move was given up, or the topic was deleted"
                del waiting[partition]
        suspects = unmoved
        progress.move_to(len(result.moved) + len(result.refused))
        if not waiting:
            return
        await trio.sleep(pause)
        pause = min(2 * pause, LOOK_AGAIN_SECONDS_MAX)


async def _found(admin: AdminClient, wanted: Mapping[Partition, Row]) -> dict[Partition, MetadataResponsePartition]:
    found: list[MetadataResponseTopic] = []
    names = sorted({each.topic for each in wanted})
    try:
        found = await admin.topics(names)
    except RefusedError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        there = {topic.name for topic in await admin.topics()}
        found = await admin.topics([name for name in names if name in there])
    return {Partition(topic.name or "", each.partition_index): each for topic in found for each in topic.partitions}


def is_moved(partition: MetadataResponsePartition, row: Row) -> bool:
    """Whether the partition has exactly the replicas of the row, and all of them are live."""
    return set(partition.replica_nodes) == set(row) and set(row) <= set(partition.isr_nodes)


def _is_given_up(partition: MetadataResponsePartition | None, row: Row) -> bool:
    return partition is None or set(partition.replica_nodes) != set(row)
