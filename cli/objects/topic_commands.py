"""`tailrace topic …`: creates, lists, describes, alters, deletes and restores topics."""

import argparse
from typing import cast

from tailrace.cli.clients.sc_client import Document, ScClient
from tailrace.cli.clients.server_connection import RefusedError
from tailrace.cli.options.document_files import read_document
from tailrace.cli.options.sc_options import (
    Command,
    UsageError,
    checked_document,
    documents_of_file,
    objects_in,
    only_given,
    pairs,
    show_documents,
    text_of_file,
    wait_seconds,
)
from tailrace.cli.output.printing import time_text
from tailrace.cli.output.tables import fields, table
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.controller.objects.objects import DeletedTopic, Object, ReplicaMap, Topic, TopicResolution
from tailrace.controller.objects.topic_documents import PARTITIONS_MAX, read_rows


def _create_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="Name of the topic, unless a file has it.")
    parser.add_argument("--partitions", metavar="N", type=int, help="Number of partitions (default: 1).")
    parser.add_argument("--replication-factor", metavar="N", type=int, help="Replicas of each partition (default: 1).")
    parser.add_argument(
        "--config", metavar="NAME=VALUE", action="append", default=[], help="Config to set; may be repeated."
    )
    parser.add_argument(
        "--replica-assignment",
        metavar="FILE",
        help="YAML or JSON with the SPUs of each partition, the leader first, such as 0: [1, 2, 3].",
    )
    parser.add_argument("--ignore-racks", action="store_true", help="Place replicas without regard to racks.")
    parser.add_argument(
        "--file", "-f", metavar="FILE", help="YAML or JSON with the specs of one or more topics, instead of options."
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=wait_seconds,
        default=0.0,
        help="Wait until clients can write to the topic, at most this long.",
    )


async def _create(client: ScClient, arguments: argparse.Namespace) -> None:
    wait_ms = int(arguments.wait * 1000)
    created = [await client.create("topic", document, wait_ms) for document in _created(arguments)]
    topics = _topics(objects_in("topic", created))
    show_documents(arguments, created, lambda: "\n".join(map(_creation_text, topics)))


def _created(arguments: argparse.Namespace) -> list[Document]:
    given = only_given(
        {
            "partitions": arguments.partitions,
            "replicationFactor": arguments.replication_factor,
            "ignoreRackAssignment": True if arguments.ignore_racks else None,
            "configs": pairs(arguments.config, "--config") or None,
        }
    )
    if arguments.replica_assignment is not None:
        given["replicaMap"] = _rows(arguments.replica_assignment)
    if arguments.file is not None:
        if given:
            raise UsageError("--file: write partitions, configs and replicas into the file, not into options")
        return documents_of_file("topic", arguments.file, arguments.name)
    if arguments.name is None:
        raise UsageError("give the name of the topic, or --file")
    return [checked_document("topic", {"name": arguments.name} | given)]


def _rows(path: str) -> dict[int, list[int]]:
    rows = read_rows(read_document(text_of_file(path), path), path)
    return {number: list(replicas) for number, replicas in rows.items()}


def _creation_text(topic: Topic) -> str:
    return f"created topic {topic.name}{_state_unless_provisioned(topic)}"


def _state_unless_provisioned(topic: Topic) -> str:
    status = topic.status
    reason = f": {status.reason}" if status.reason else ""
    if status.resolution is TopicResolution.PROVISIONED:
        return ""
    return f"; its status is {status.resolution.value or 'new'}{reason}"


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--deleted", action="store_true", help="List deleted topics that can be restored.")


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    if arguments.deleted:
        documents = await client.list_objects("deleted-topic")
        deleted = cast(list[DeletedTopic], objects_in("deleted-topic", documents))
        show_documents(arguments, documents, lambda: deleted_table(deleted))
        return
    documents = await client.list_objects("topic")
    topics = _topics(objects_in("topic", documents))
    show_documents(arguments, documents, lambda: topic_table(topics))


def topic_table(topics: list[Topic]) -> str:
    """Formats topics, one in each row."""
    return table(
        ("NAME", "PARTITIONS", "REPLICATION", "STATUS", "REASON"),
        [
            (
                topic.name,
                topic.spec.partitions,
                topic.spec.replication_factor,
                topic.status.resolution.value,
                topic.status.reason,
            )
            for topic in topics
        ],
    )


def deleted_table(topics: list[DeletedTopic]) -> str:
    """Formats deleted topics, one in each row."""
    return table(
        ("NAME", "ID", "PARTITIONS", "DELETED"),
        [
            (each.topic.name, each.topic.id, each.topic.spec.partitions, time_text(each.deleted_at_ms))
            for each in topics
        ],
    )


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+")


async def _describe(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("topic", arguments.names)
    topics = _topics(objects_in("topic", documents))
    show_documents(arguments, documents, lambda: "\n\n".join(map(description, topics)))


def description(topic: Topic) -> str:
    """Describes a topic. The replicas are in the form that `--replica-assignment` accepts."""
    spec, status = topic.spec, topic.status
    about = fields(
        [
            ("Topic", topic.name),
            ("Id", topic.id),
            ("Partitions", spec.partitions),
            ("Replication factor", spec.replication_factor),
            ("Ignores racks", "yes" if spec.ignores_racks else None),
            *((f"Config {name}", value) for name, value in spec.configs.items()),
            ("Status", status.resolution.value),
            ("Reason", status.reason),
        ]
    )
    return "\n".join([about, *_row_lines("Replicas", status.replica_map)])


def _row_lines(title: str, rows: ReplicaMap) -> list[str]:
    return [f"{title}:", *(f"  - {number}: {list(replicas)}" for number, replicas in rows.items())] if rows else []


def _delete_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="Name or id of the topic.")


async def _delete(client: ScClient, arguments: argparse.Namespace) -> None:
    await client.delete("topic", arguments.name)
    show_documents(
        arguments,
        {"kind": "topic", "name": arguments.name},
        lambda: f"deleted topic {arguments.name}; `tailrace topic undelete` restores it while its data is kept",
    )


def _undelete_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="Name of the topic, or its id if several topics of that name were deleted."
    )


async def _undelete(client: ScClient, arguments: argparse.Namespace) -> None:
    document = await client.undelete_topic(arguments.name)
    (topic,) = _topics(objects_in("topic", [document]))
    show_documents(arguments, document, lambda: f"restored topic {topic.name}{_state_unless_provisioned(topic)}")


def _alter_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="Name of the topic.")
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
    parser.add_argument(
        "--replica-assignment", metavar="FILE", help="YAML or JSON with the SPUs of each added partition."
    )


async def _alter(client: ScClient, arguments: argparse.Namespace) -> None:
    name: str = arguments.name
    changes: dict[str, str | None] = dict(pairs(arguments.config, "--config"))
    for each in arguments.delete_config:
        if each in changes:
            raise UsageError(f"{each} is both set and deleted")
        if each not in TOPIC_CONFIGS:
            raise UsageError(f"--delete-config: there is no topic config {each!r:.200}")
        changes[each] = None
    if not changes and arguments.partitions is None:
        raise UsageError("give --config, --delete-config or --partitions")
    if arguments.partitions is not None and not 1 <= arguments.partitions <= PARTITIONS_MAX:
        raise UsageError(f"--partitions: {arguments.partitions} is not a whole number from 1 to {PARTITIONS_MAX}")
    rows = None
    if arguments.replica_assignment is not None:
        if arguments.partitions is None:
            raise UsageError("--replica-assignment: give --partitions too; it adds the partitions")
        rows = list(_rows(arguments.replica_assignment).values())
    if changes:
        await client.alter_topic_configs(name, changes)
    if arguments.partitions is not None:
        try:
            await client.add_partitions(name, arguments.partitions, rows)
        except RefusedError as error:
            done = "the configs were altered, but no partitions were added: " if changes else ""
            raise RefusedError(f"{done}{error}", error.code) from error
    documents = await client.list_objects("topic", [name])
    topics = _topics(objects_in("topic", documents))
    show_documents(arguments, documents, lambda: "\n\n".join(map(description, topics)))


def _topics(found: list[Object]) -> list[Topic]:
    return cast(list[Topic], found)


COMMANDS = {
    "create": Command("topic create", _create_options, _create),
    "list": Command("topic list", _list_options, _list, is_watchable=True),
    "describe": Command("topic describe", _describe_options, _describe, is_watchable=True),
    "delete": Command("topic delete", _delete_options, _delete),
    "undelete": Command("topic undelete", _undelete_options, _undelete),
    "alter": Command("topic alter", _alter_options, _alter),
}
