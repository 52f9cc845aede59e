"""Keeps how far a backfill into topics is, exactly once: as committed offsets of a group in the cluster of the topics.

The offset of a partition is committed in the transaction that has the output of its records. So it makes no difference
how often records were tried. The group belongs to one backfill, and its offsets are those of the archive.
"""

from collections.abc import Collection, Iterable

from tailrace.client.group_client import GroupClient
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import unless_refused
from tailrace.client.spu_client import SpuClient
from tailrace.protocol.error_codes import ErrorCode
from tailrace.trigger.work import Shard

from .backfill_planning import BackfillError, BackfillId


def group_of(backfill: BackfillId, topic_id: str) -> str:
    """Returns the group that keeps how far a backfill is in a topic."""
    return f"{backfill.group}.backfill.{backfill.progress_id(topic_id)}"


async def check_partitions(spus: SpuClient, topic: str, numbers: Collection[int]) -> None:
    """Checks that the cluster has partitions. Raises BackfillError, RefusedError and UnreachableError."""
    found = (await LogClient(spus).partitions([topic]))[topic]
    if isinstance(found, list):
        missing = sorted(set(numbers) - {each.number for each in found})
        if not missing:
            return
        what = f"has no partition {missing[0]} of {topic}"
    elif found.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        what = f"has no topic {topic}"
    else:
        raise found
    raise BackfillError(
        f"the cluster {what}, and with exactly-once it keeps how far the backfill is as offsets of this topic: create "
        f"it with {max(numbers) + 1} partitions, or give --output-archive"
    )


async def positions_in(
    spus: SpuClient, group: str, topic: str, numbers: Iterable[int], *, only_stable: bool = False
) -> dict[int, int]:
    """Returns the first offset that is not done, for each partition in which something is done.

    Transactions that are still open do not count. `only_stable` waits for their end. Raises RefusedError and
    UnreachableError.
    """
    partitions = [Partition(topic, each) for each in numbers]
    found = await GroupClient(spus).committed_in(group, partitions, only_stable=only_stable)
    by_number = {each.number: unless_refused(progress) for each, progress in found.items()}
    return {
        number: progress.committed
        for number, progress in by_number.items()
        if progress is not None and progress.committed is not None
    }


async def position_of(spus: SpuClient, group: str, shard: Shard) -> int | None:
    """Returns the first offset of a partition that is not done; None if nothing is done.

    Waits while the offset is in an open transaction. Raises RefusedError and UnreachableError.
    """
    return (await positions_in(spus, group, shard.topic, [shard.number], only_stable=True)).get(shard.number)
