"""Compares where the leader epochs of a partition begin in the logs of its replicas."""

from msgspec import Struct

from tailrace.cli.output.tables import table
from tailrace.protocol.internal.describe_partitions import DescribedPartition, EpochStart, ReplicaDetail


class EpochRow(Struct, frozen=True):
    """One leader epoch in the logs of all replicas."""

    epoch: int
    begin: int
    """The first offset of the epoch in the leader's log, or in the largest log if there is no leader."""
    end: int
    """The offset after the last record of the epoch in the same log."""
    begins: dict[int, int]
    """The first offset of the epoch on each SPU that has records of it."""
    lacking: tuple[int, ...] = ()
    """The SPUs whose logs go beyond the epoch but have no record of it."""


def epoch_history(partition: DescribedPartition) -> list[EpochRow]:
    """Returns the epochs in order; an epoch without records does not appear."""
    heard = [each for each in partition.details if each.epochs]
    if not heard:
        return []
    # If the replicas differ, the first one in this order decides.
    heard.sort(key=lambda each: (each.spu_id != partition.leader, -each.log_end))
    starts: dict[int, EpochStart] = {}
    for replica in heard:
        for each in replica.epochs:
            starts.setdefault(each.epoch, each)
    # A replica that reports only its last epochs may also have older ones.
    known_from = {each.spu_id: each.epochs[0].epoch if each.older_epochs else 0 for each in heard}
    ordered = sorted(starts.values(), key=lambda each: each.epoch)
    ends = [each.start for each in ordered[1:]] + [heard[0].log_end]
    rows = []
    for start, end in zip(ordered, ends, strict=True):
        begins = {each.spu_id: own for each in heard if (own := _begin(each, start.epoch)) is not None}
        lacking = tuple(
            each.spu_id
            for each in heard
            if each.spu_id not in begins
            and each.log_start <= start.start < each.log_end
            and start.epoch >= known_from[each.spu_id]
        )
        rows.append(EpochRow(start.epoch, start.start, max(start.start, end), dict(sorted(begins.items())), lacking))
    return rows


def _begin(replica: ReplicaDetail, epoch: int) -> int | None:
    return next((each.start for each in replica.epochs if each.epoch == epoch), None)


def older_epochs(partition: DescribedPartition) -> int:
    """Returns how many older epochs exist at least, which were not reported."""
    return max((each.older_epochs for each in partition.details), default=0)


def epoch_table(partition: DescribedPartition) -> str:
    """Formats the epochs; returns an empty text if no replica has reported any."""
    rows = epoch_history(partition)
    if not rows:
        return ""
    starts = {each.spu_id: each.log_start for each in partition.details}
    text = table(
        ("EPOCH", "BEGINS AT", "ENDS AT", "REPLICAS"),
        [(row.epoch, row.begin, row.end, _replicas(row, starts)) for row in rows],
    )
    older = older_epochs(partition)
    return f"{text}\n{older} older epochs are not shown" if older else text


def _replicas(row: EpochRow, log_starts: dict[int, int]) -> str:
    """Lists the SPUs with the epoch, and where it begins if that differs.

    A log that begins within the epoch does not differ: retention has deleted the epoch's first records.
    """
    texts = {
        spu_id: f"{spu_id}" if begin in (row.begin, log_starts[spu_id]) else f"{spu_id} (from {begin})"
        for spu_id, begin in row.begins.items()
    } | {spu_id: f"{spu_id} (lacks it)" for spu_id in row.lacking}
    return ", ".join(text for _, text in sorted(texts.items()))


def epoch_documents(partition: DescribedPartition) -> list[dict[str, object]]:
    """Makes documents of the epochs."""
    return [
        {
            "epoch": row.epoch,
            "begin": row.begin,
            "end": row.end,
            "replicas": [{"spuId": spu_id, "begin": begin} for spu_id, begin in row.begins.items()],
            "lacking": list(row.lacking),
        }
        for row in epoch_history(partition)
    ]
