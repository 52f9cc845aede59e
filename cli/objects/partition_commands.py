"""`tailrace partition …`: lists and describes partitions with their leaders, replicas and lags.

All ends are exclusive, as in Kafka's tools: a log with the records 0, 1 and 2 has the log end 3.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Protocol

from tailrace.cli.clients.sc_client import Document, ScClient
from tailrace.cli.clients.server_connection import RefusedError
from tailrace.cli.options.sc_options import Command, RecentChanges, UsageError, seen_before, show_documents
from tailrace.cli.output.printing import size_text, time_text
from tailrace.cli.output.tables import fields, table
from tailrace.controller.objects.partition_states import mermaid
from tailrace.protocol.internal.describe_partitions import DescribedPartition, ReplicaDetail, StatusChange

from .epoch_history import epoch_documents, epoch_table, older_epochs

UNKNOWN = -1
NEVER = -1
EPOCHS_MAX = 50
"""The number of leader epochs to ask of each replica; the last ones are shown."""


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="Topics to list (default: all).")
    parser.add_argument(
        "--lagging", action="store_true", help="List only partitions with a replica that lags or is not live."
    )


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    partitions = await _described(client, arguments, arguments.topics or None)
    if arguments.lagging:
        partitions = [each for each in partitions if is_lagging(each)]
    documents = await _documents(client, arguments, partitions)
    show_documents(arguments, documents, lambda: partition_table(partitions), _recent_changes(partitions, documents))


def partition_table(partitions: list[DescribedPartition]) -> str:
    return table(
        ("TOPIC", "PARTITION", "LEADER", "LRS", "REPLICAS", "LEO", "HW", "LAG", "EPOCH", "STATUS", "REASON"),
        [
            (
                each.topic,
                each.partition,
                known(each.leader),
                ids_text(each.live_replicas),
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


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC[/PARTITION]", help="Topic, or one of its partitions.")
    parser.add_argument("partition", metavar="PARTITION", nargs="?", type=int, help="Partition (default: all).")


async def _describe(client: ScClient, arguments: argparse.Namespace) -> None:
    topic, number = _named(arguments)
    described = await _described(client, arguments, [topic], EPOCHS_MAX)
    partitions = [each for each in described if number is None or each.partition == number]
    if not partitions:
        raise RefusedError(
            f"there is no partition {topic}/{number}" if number is not None else f"topic {topic} has no partitions"
        )
    documents = [
        document | {"epochs": epoch_documents(each), "olderEpochs": older_epochs(each)}
        for document, each in zip(await _documents(client, arguments, partitions), partitions, strict=False)
    ]
    changes = _recent_changes(partitions, documents)
    show_documents(arguments, documents, lambda: "\n\n".join(map(description, partitions)), changes)


async def _described(
    client: ScClient, arguments: argparse.Namespace, topics: Sequence[str] | None, epochs_max: int = 0
) -> list[DescribedPartition]:
    """Asks for partitions; with `--watch` also for the statuses that they have had since the last look."""
    seen = seen_before(arguments)
    answer = await client.describe_partitions(topics, epochs_max, NEVER if seen is None else seen.last_change_us)
    if seen is not None:
        seen.last_change_us = answer.last_change_us
    return answer.partitions


def _recent_changes(partitions: list[DescribedPartition], documents: list[Document]) -> RecentChanges | None:
    """The changes of statuses since the last look; None if there are none."""
    if not any(each.status_changes for each in partitions):
        return None
    with_changes = [
        document | {"statusChanges": [_change_document(change) for change in each.status_changes]}
        for document, each in zip(documents, partitions, strict=False)
    ]
    return RecentChanges(with_changes, change_table(partitions))


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


def _change_document(change: StatusChange) -> Document:
    return {
        "time": time_text(change.time_us // 1000),
        "resolution": change.resolution,
        "leader": known(change.leader),
        "epoch": known(change.epoch),
        "reason": change.reason,
    }


def _named(arguments: argparse.Namespace) -> tuple[str, int | None]:
    takes = "TOPIC, TOPIC/PARTITION or TOPIC PARTITION"
    topic, number = named_partitions(arguments.topic, takes)
    if number is not None and arguments.partition is not None:
        raise UsageError(f"{arguments.topic}: expected {takes}")
    return topic, arguments.partition if number is None else number


def named_partitions(text: str, takes: str = "TOPIC or TOPIC/PARTITION") -> tuple[str, int | None]:
    """Reads a topic and one of its partitions; None stands for all partitions."""
    topic, slash, number = text.partition("/")
    if slash and re.fullmatch(r"[0-9]{1,9}", number) is None:
        raise UsageError(f"{text}: expected {takes}")
    return topic, int(number) if slash else None


def description(partition: DescribedPartition) -> str:
    about = fields(
        [
            ("Partition", f"{partition.topic}/{partition.partition}"),
            ("Topic id", partition.topic_id),
            ("Leader", known(partition.leader)),
            ("Epoch", known(partition.epoch)),
            ("Replicas", ids_text(partition.replicas)),
            ("Adding", ids_text(partition.adding) if partition.adding else None),
            ("Removing", ids_text(partition.removing) if partition.removing else None),
            ("LRS", ids_text(partition.live_replicas)),
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
                "yes" if each.spu_id in partition.live_replicas else "no",
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


class Shelf(Protocol):
    """A shelf in any of the internal messages."""

    base: int
    end: int
    stores: list[int]
    filling: list[int]


def shelf_copies(shelf: Shelf) -> str:
    """Lists the SPUs that store the shelf or are filling it."""
    return ", ".join([*map(str, shelf.stores), *(f"{spu} (being filled)" for spu in shelf.filling)])


def shelf_document(shelf: Shelf) -> Document:
    return {"base": shelf.base, "end": shelf.end, "stores": list(shelf.stores), "filling": list(shelf.filling)}


async def _documents(
    client: ScClient, arguments: argparse.Namespace, partitions: list[DescribedPartition]
) -> list[Document]:
    """Returns the documents for JSON and YAML: spec and status of each partition, and what SPUs report about it."""
    if arguments.output == "table":
        return []
    objects = {(each.get("topic"), each.get("partition")): each for each in await client.list_objects("partition")}
    return [objects.get((each.topic, each.partition), {}) | partition_document(each) for each in partitions]


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


def leader_of(partition: DescribedPartition) -> ReplicaDetail:
    """Returns the leader's report of its log; an empty report if there is no leader or it did not respond."""
    found = (each for each in partition.details if each.spu_id == partition.leader)
    return next(found, ReplicaDetail(partition.leader))


def lag_of(replica: ReplicaDetail, leader: ReplicaDetail) -> int | None:
    """Returns how many records a replica lacks; 0 if it seems to be ahead because the leader was asked first."""
    if UNKNOWN in (replica.log_end, leader.log_end):
        return None
    return max(leader.log_end - replica.log_end, 0)


def size_of(replica: ReplicaDetail) -> str | None:
    return None if replica.size_bytes == UNKNOWN else size_text(replica.size_bytes)


def is_lagging(partition: DescribedPartition) -> bool:
    """Whether a replica lags, is not live, or has an unknown lag."""
    leader = leader_of(partition)
    return len(partition.live_replicas) < len(partition.replicas) or any(
        lag_of(each, leader) != 0 for each in details_of(partition)
    )


def _lags_text(partition: DescribedPartition) -> str:
    """Formats the lag of each follower; `?` stands for an unknown lag."""
    lags = {each.spu_id: lag_of(each, leader_of(partition)) for each in details_of(partition)}
    return ", ".join(
        f"{spu_id}: {'?' if lag is None else lag}" for spu_id, lag in lags.items() if spu_id != partition.leader
    )


def ids_text(ids: list[int]) -> str:
    return f"[{', '.join(map(str, ids))}]"


def details_of(partition: DescribedPartition) -> list[ReplicaDetail]:
    """Returns a report for each replica; it is empty if the replica's SPU did not respond."""
    by_spu = {each.spu_id: each for each in partition.details}
    return [by_spu.get(spu_id) or ReplicaDetail(spu_id) for spu_id in partition.replicas]


def known(number: int) -> int | None:
    """Returns the number, or None if it is the one that stands for an unknown value."""
    return None if number == UNKNOWN else number


class _StatesCommand:
    """`tailrace partition states`, which asks no server."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds no options."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Prints how the status of a partition changes, as a Mermaid diagram."""
        print(mermaid())
        return 0


COMMANDS = {
    "list": Command("partition list", _list_options, _list, is_watchable=True),
    "describe": Command("partition describe", _describe_options, _describe, is_watchable=True),
    "states": _StatesCommand(),
}
