"""Formats partitions as tables and texts for people, and as documents for programs."""

from tailrace.cli.output.printing import time_text
from tailrace.cli.output.tables import fields, table
from tailrace.client.sc_client import Document
from tailrace.protocol.internal.describe_partitions import DescribedPartition, StatusChange

from .epoch_history import epoch_table
from .partition_facts import Shelf, details_of, known, lag_of, leader_of, liveness, shelf_copies, size_of


def partition_table(partitions: list[DescribedPartition]) -> str:
    """Formats partitions, one in each row."""
    return table(
        (
            "TOPIC",
            "PARTITION",
            "LEADER",
            "LRS",
            "ELECTABLE",
            "REPLICAS",
            "LEO",
            "HW",
            "LAG",
            "EPOCH",
            "STATUS",
            "REASON",
        ),
        [
            (
                each.topic,
                each.partition,
                known(each.leader),
                ids_text(each.live_replicas),
                ids_text(each.electable) if each.electable else None,
                ids_text(each.replicas),
                known(leader_of(each).log_end),
                known(leader_of(each).high_watermark),
                _lags_text(each),
                known(each.epoch),
                each.resolution,
                each.reason,
            )
            for each in partitions
        ],
    )


def change_table(partitions: list[DescribedPartition]) -> str:
    """Formats all changes of statuses in the order of their times."""
    changes = [(change.time_us, each, change) for each in partitions for change in each.status_changes]
    return table(
        ("TIME", "TOPIC", "PARTITION", "LEADER", "EPOCH", "STATUS", "REASON"),
        [
            (
                time_text(time_us // 1000),
                each.topic,
                each.partition,
                known(change.leader),
                known(change.epoch),
                change.resolution,
                change.reason,
            )
            for time_us, each, change in sorted(changes, key=lambda row: row[0])
        ],
    )


def change_document(change: StatusChange) -> Document:
    """Makes a document of a change of the status."""
    return {
        "time": time_text(change.time_us // 1000),
        "resolution": change.resolution,
        "leader": known(change.leader),
        "epoch": known(change.epoch),
        "reason": change.reason,
    }


def description(partition: DescribedPartition) -> str:
    """Describes a partition with its replicas, shelves and epochs."""
    about = fields(
        [
            ("Partition", f"{partition.topic}/{partition.partition}"),
            ("Topic id", partition.topic_id),
            ("Leader", "none" if known(partition.leader) is None else partition.leader),
            ("Epoch", known(partition.epoch)),
            ("Replicas", ids_text(partition.replicas)),
            ("Adding", ids_text(partition.adding) if partition.adding else None),
            ("Removing", ids_text(partition.removing) if partition.removing else None),
            ("LRS", ids_text(partition.live_replicas)),
            ("Electable", ids_text(partition.electable) if partition.electable else None),
            ("On shelves", f"{partition.shelved_from} to {partition.shelves[-1].end}" if partition.shelves else None),
            ("Status", partition.resolution),
            ("Reason", partition.reason),
        ]
    )
    leader = leader_of(partition)
    replicas = table(
        ("SPU", "ROLE", "LIVE", "LOG START", "LEO", "HW", "LAG", "SIZE", "ERROR"),
        [
            (
                each.spu_id,
                "leader" if each.spu_id == partition.leader else "follower",
                liveness(partition, each.spu_id),
                known(each.log_start),
                known(each.log_end),
                known(each.high_watermark),
                lag_of(each, leader),
                size_of(each),
                each.error_message,
            )
            for each in details_of(partition)
        ],
    )
    return "\n".join(filter(None, (about, replicas, _shelf_table(partition), epoch_table(partition))))


def _shelf_table(partition: DescribedPartition) -> str:
    """Formats the shelves of a partition; returns an empty text if it has none."""
    if not partition.shelves:
        return ""
    rows = [(each.base, each.end, shelf_copies(each)) for each in partition.shelves]
    return table(("SHELF BASE", "END", "COPIES"), rows)


def shelf_document(shelf: Shelf) -> Document:
    """Makes a document of a shelf."""
    return {"base": shelf.base, "end": shelf.end, "stores": list(shelf.stores), "filling": list(shelf.filling)}


def partition_document(partition: DescribedPartition) -> dict[str, object]:
    """Makes a document of what the SC knows of a partition and what the SPUs report."""
    leader = leader_of(partition)
    return {
        "topic": partition.topic,
        "topicId": str(partition.topic_id),
        "partition": partition.partition,
        "leader": known(partition.leader),
        "epoch": known(partition.epoch),
        "lrs": list(partition.live_replicas),
        "electable": list(partition.electable),
        "replicas": list(partition.replicas),
        "adding": list(partition.adding),
        "removing": list(partition.removing),
        "resolution": partition.resolution,
        "reason": partition.reason,
        "logEnd": known(leader.log_end),
        "highWatermark": known(leader.high_watermark),
        "details": [
            {
                "spuId": each.spu_id,
                "logStart": known(each.log_start),
                "logEnd": known(each.log_end),
                "highWatermark": known(each.high_watermark),
                "lag": lag_of(each, leader),
                "sizeBytes": known(each.size_bytes),
                "error": each.error_message,
            }
            for each in details_of(partition)
        ],
    }


def with_true_status(document: Document, partition: DescribedPartition) -> Document:
    """Returns the SC's document of a partition with a status that is true at this moment.

    The stored status keeps the last leader of a partition that has none, and live replicas that are offline.
    """
    status = dict(document.get("status", {}))
    incarnations = dict(zip(status.get("lrs", ()), status.get("lrsIncarnations", ()), strict=False))
    live = [spu for spu in status.get("lrs", ()) if spu in partition.live_replicas]
    status |= {
        "leader": known(partition.leader),
        "lrs": live,
        "lrsIncarnations": [incarnations[spu] for spu in live],
        "electable": list(partition.electable),
    }
    return document | {"status": status}


def _lags_text(partition: DescribedPartition) -> str:
    """Formats the lag of each follower; `?` stands for an unknown lag."""
    lags = {each.spu_id: lag_of(each, leader_of(partition)) for each in details_of(partition)}
    return ", ".join(
        f"{spu_id}: {'?' if lag is None else lag}" for spu_id, lag in lags.items() if spu_id != partition.leader
    )


def ids_text(ids: list[int]) -> str:
    """Formats a list of ids."""
    return f"[{', '.join(map(str, ids))}]"
