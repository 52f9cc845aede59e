"""`tailrace replica …`: lists the replicas that each SPU reports at this moment."""

import argparse

from tailrace.cli.administration.broker_partitions import list_replicas
from tailrace.cli.options.sc_options import internal_option, show_documents, without_internal
from tailrace.cli.options.spu_options import broker_command
from tailrace.cli.output.tables import table
from tailrace.client.sc_client import Document, ScClient
from tailrace.protocol.internal.describe_partitions import DescribedPartition, ReplicaDetail

from .partition_facts import details_of, known, lag_of, leader_of, liveness, size_of

Held = tuple[DescribedPartition, ReplicaDetail]


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="Topics to list (default: all).")
    parser.add_argument(
        "--spu",
        metavar="ID",
        type=int,
        action="append",
        default=[],
        help="SPU to list (default: all); may be repeated.",
    )
    internal_option(parser)


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    described = await client.describe_partitions(arguments.topics or None)
    partitions = described.partitions
    if not arguments.topics:
        partitions = without_internal(arguments, partitions, lambda each: each.topic)
    held = replicas_of(partitions, arguments.spu)
    show_documents(arguments, [replica_document(each) for each in held], lambda: replica_table(held))


def replicas_of(partitions: list[DescribedPartition], spus: list[int]) -> list[Held]:
    """Returns the replicas sorted by SPU, of some SPUs, or of all if `spus` is empty."""
    held = [(each, detail) for each in partitions for detail in details_of(each)]
    return sorted((each for each in held if not spus or each[1].spu_id in spus), key=lambda each: each[1].spu_id)


def replica_table(held: list[Held]) -> str:
    """Formats replicas, one in each row."""
    return table(
        ("SPU", "TOPIC", "PARTITION", "ROLE", "EPOCH", "LIVE", "LOG START", "LEO", "HW", "LAG", "SIZE", "ERROR"),
        [
            (
                replica.spu_id,
                partition.topic,
                partition.partition,
                _role(replica),
                known(replica.epoch),
                liveness(partition, replica.spu_id),
                known(replica.log_start),
                known(replica.log_end),
                known(replica.high_watermark),
                lag_of(replica, leader_of(partition)),
                size_of(replica),
                replica.error_message,
            )
            for partition, replica in held
        ],
    )


def replica_document(held: Held) -> Document:
    """Makes a document of a replica."""
    partition, replica = held
    return {
        "spuId": replica.spu_id,
        "topic": partition.topic,
        "topicId": str(partition.topic_id),
        "partition": partition.partition,
        "role": _role(replica),
        "epoch": known(replica.epoch),
        "isLive": replica.spu_id in partition.live_replicas,
        "isElectable": replica.spu_id in partition.electable,
        "logStart": known(replica.log_start),
        "logEnd": known(replica.log_end),
        "highWatermark": known(replica.high_watermark),
        "lag": lag_of(replica, leader_of(partition)),
        "sizeBytes": known(replica.size_bytes),
        "error": replica.error_message,
    }


def _role(replica: ReplicaDetail) -> str | None:
    """Returns the role of a replica; None if its SPU has not reported it."""
    if known(replica.epoch) is None:
        return None
    return "leader" if replica.is_leader else "follower"


COMMANDS = {"list": broker_command("replica list", _list_options, _list, list_replicas, is_watchable=True)}
