"""`tailrace topic alter`: changes the configs, the partitions and the replicas of topics.

A topic that has no replicas yet gets another spec, and the Streaming Controller decides about it anew. A topic that has
replicas is altered by the requests that every Kafka broker knows.
"""

import argparse
from contextlib import closing
from typing import cast

from msgspec import Struct

from tailrace.cli.administration import broker_topics
from tailrace.cli.administration.replication_factor import change_factor
from tailrace.cli.options.sc_options import (
    NotInEffectError,
    UsageError,
    checked_document,
    objects_in,
    pairs,
    say_without_effect,
    show_documents,
)
from tailrace.cli.options.topic_options import rows_of_file
from tailrace.client.admin_client import AdminClient
from tailrace.client.sc_client import Document, ScClient
from tailrace.client.spu_client import SpuClient
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.controller.objects.objects import Topic, TopicResolution
from tailrace.controller.objects.topic_documents import PARTITIONS_MAX, REPLICATION_FACTOR_MAX

from .topic_tables import description, topic_table
from .unfinished_topics import waiting_topics


class Alteration(Struct, frozen=True):
    """What should be different in a topic."""

    configs: dict[str, str | None]
    """The configs to set; None resets a config to its default."""
    partitions: int | None
    replication_factor: int | None
    rows: dict[int, list[int]] | None
    """The SPUs of partitions, by their numbers."""


def alter_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tailrace topic alter`."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="Names of topics.")
    parser.add_argument(
        "--all", action="store_true", help="With --replication-factor: all topics, internal ones included."
    )
    parser.add_argument(
        "--config", metavar="NAME=VALUE", action="append", default=[], help="Config to set; may be repeated."
    )
    parser.add_argument(
        "--delete-config",
        metavar="NAME",
        action="append",
        default=[],
        help="Config to reset to its default; may be repeated.",
    )
    parser.add_argument("--partitions", metavar="N", type=int, help="New number of partitions.")
    parser.add_argument("--replication-factor", metavar="N", type=int, help="New number of replicas of each partition.")
    parser.add_argument(
        "--replica-assignment", metavar="FILE", help="YAML or JSON with the SPUs of each added partition."
    )


async def alter(client: ScClient, arguments: argparse.Namespace) -> None:
    """Alters topics, and shows them as they are then."""
    alteration = alteration_of(arguments)
    set_to = [name for name, value in alteration.configs.items() if value is not None]
    say_without_effect("topic alter", set_to, TOPIC_CONFIGS)
    before = await client.list_objects("topic", None if arguments.all else arguments.names)
    finished = [each for each in before if not _is_unfinished(each)]
    if not arguments.all:  # With --all, topics that wait for SPUs keep their own replication factor.
        for each in before:
            if _is_unfinished(each):
                await client.update("topic", checked_document("topic", corrected(each, alteration)))
    if finished:
        with closing(SpuClient(client.network, client.addresses, client.role)) as spus:
            await _alter_existing(AdminClient(spus), finished, alteration)
    documents = await client.list_objects("topic", [each["name"] for each in before])
    topics = cast(list[Topic], objects_in("topic", documents))
    show_documents(
        arguments,
        documents,
        lambda: topic_table(topics) if arguments.all else "\n\n".join(map(description, topics)),
    )
    waiting = [] if arguments.all else waiting_topics(topics)
    if waiting:
        raise NotInEffectError(waiting)


async def alter_through_broker(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Alters topics through a broker, and shows them as they are then."""
    alteration = alteration_of(arguments)
    rows = _rows_of_added(alteration)
    for name in arguments.names:
        await broker_topics.alter(admin, name, alteration.configs, alteration.partitions, rows)
    if alteration.replication_factor is not None:
        await change_factor(admin, None if arguments.all else arguments.names, alteration.replication_factor)
    if arguments.all:
        await broker_topics.show_list(admin, arguments, await admin.topics())
    else:
        await broker_topics.describe(admin, arguments)


def alteration_of(arguments: argparse.Namespace) -> Alteration:
    """Reads the options. Raises UsageError."""
    changes: dict[str, str | None] = dict(pairs(arguments.config, "--config"))
    for each in arguments.delete_config:
        if each in changes:
            raise UsageError(f"{each} is both set and deleted")
        if each not in TOPIC_CONFIGS:
            raise UsageError(f"--delete-config: there is no topic config {each!r:.200}")
        changes[each] = None
    for flag, value, most in (
        ("--partitions", arguments.partitions, PARTITIONS_MAX),
        ("--replication-factor", arguments.replication_factor, REPLICATION_FACTOR_MAX),
    ):
        if value is not None and not 1 <= value <= most:
            raise UsageError(f"{flag}: {value} is not a whole number from 1 to {most}")
    rows = None if arguments.replica_assignment is None else rows_of_file(arguments.replica_assignment)
    only_factor = not changes and rows is None and arguments.partitions is None
    if arguments.all and (arguments.names or not only_factor or arguments.replication_factor is None):
        raise UsageError("--all: give --replication-factor with it, and no names or other changes")
    if not arguments.all and not arguments.names:
        raise UsageError("give the names of topics, or --all with --replication-factor")
    if len(arguments.names) > 1 and rows is not None:
        raise UsageError("--replica-assignment: name one topic")
    if not changes and rows is None and arguments.partitions is None and arguments.replication_factor is None:
        raise UsageError("give --config, --delete-config, --partitions, --replication-factor or --replica-assignment")
    return Alteration(changes, arguments.partitions, arguments.replication_factor, rows)


def _is_unfinished(topic: Document) -> bool:
    return bool(topic["status"]["resolution"] != TopicResolution.PROVISIONED.value)


def corrected(topic: Document, alteration: Alteration) -> Document:
    """Returns the document of a topic that has no replicas yet with what the alteration changes.

    A replica map replaces the one before, with its number of partitions and replicas. A replication factor without a
    map leaves the choice of the SPUs to the Streaming Controller.
    """
    spec = dict(topic["spec"])
    if alteration.rows is not None:
        spec = {name: value for name, value in spec.items() if name not in ("partitions", "replicationFactor")}
        spec["replicaMap"] = alteration.rows
    elif alteration.replication_factor is not None:
        spec.pop("replicaMap", None)
    if alteration.partitions is not None:
        spec["partitions"] = alteration.partitions
        if alteration.rows is None and "replicaMap" in spec:
            rows = spec["replicaMap"].items()
            spec["replicaMap"] = {number: row for number, row in rows if int(number) < alteration.partitions}
    if alteration.replication_factor is not None:
        spec["replicationFactor"] = alteration.replication_factor
    configs = {**spec.get("configs", {}), **alteration.configs}
    spec["configs"] = {name: value for name, value in configs.items() if value is not None}
    return {"name": topic["name"], "spec": spec}


async def _alter_existing(admin: AdminClient, topics: list[Document], alteration: Alteration) -> None:
    names = [each["name"] for each in topics]
    for name in names:
        await broker_topics.alter(admin, name, alteration.configs, alteration.partitions, _rows_of_added(alteration))
    if alteration.replication_factor is not None:
        ignoring_racks = [each["name"] for each in topics if each["spec"].get("ignoreRackAssignment")]
        await change_factor(admin, names, alteration.replication_factor, ignoring_racks)


def _rows_of_added(alteration: Alteration) -> list[list[int]] | None:
    """Returns the rows of added partitions; None if the cluster places them. Raises UsageError."""
    if alteration.rows is None:
        return None
    if alteration.partitions is None:
        raise UsageError(
            "--replica-assignment: give --partitions too, because it adds the partitions; "
            "`tailrace partition move` moves others"
        )
    return list(alteration.rows.values())
