"""`tailrace topic …` with `--bootstrap`: what any broker can do for topics, with Kafka's protocol alone."""

import argparse
from collections.abc import Sequence

import trio

from tailrace.cli.clients.admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource, NewTopic
from tailrace.cli.clients.server_connection import RefusedError
from tailrace.cli.options.sc_options import UsageError, documents_of_file, pairs, show_documents
from tailrace.cli.options.spu_options import only_the_sc
from tailrace.cli.output.tables import fields, table
from tailrace.controller.objects.topic_documents import read_rows
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.metadata import MetadataResponseTopic

from .config_tables import DYNAMIC_TOPIC

LOOK_AGAIN_SECONDS = 0.1

Document = dict[str, object]


async def create(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Creates topics through a broker."""
    created = [await _create_one(admin, topic, arguments.wait) for topic in _new_topics(arguments)]
    show_documents(arguments, created, lambda: "\n".join(f"created topic {document['name']}" for document in created))


async def list_topics(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Lists the topics that a broker names."""
    if arguments.deleted:
        raise only_the_sc("--deleted")
    shows_internal = getattr(arguments, "internal", True)
    topics = [topic for topic in await admin.topics() if shows_internal or not topic.is_internal]
    show_documents(arguments, [document_of(topic) for topic in topics], lambda: _topic_table(topics))


async def describe(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Describes topics with their configs and partitions."""
    documents, texts = [], []
    for topic in await admin.topics(arguments.names):
        configs = {
            config.name: config.value
            for config in await admin.configs(ConfigResource(TOPIC_RESOURCE, topic.name or ""), documented=False)
            if config.source == DYNAMIC_TOPIC
        }
        documents.append({**document_of(topic), "configs": configs})
        texts.append(_description(topic, configs))
    show_documents(arguments, documents, lambda: "\n\n".join(texts))


async def delete(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Deletes a topic through a broker."""
    await admin.delete_topic(arguments.name)
    document = {"kind": "topic", "name": arguments.name}
    show_documents(arguments, document, lambda: f"deleted topic {arguments.name}")


async def alter(
    admin: AdminClient,
    arguments: argparse.Namespace,
    configs: dict[str, str | None],
    partitions: int | None,
    rows: Sequence[Sequence[int]] | None,
) -> None:
    """Sets configs, adds partitions, and shows the topic as it is then."""
    if configs:
        await admin.alter_configs(ConfigResource(TOPIC_RESOURCE, arguments.name), configs)
    if partitions is not None:
        try:
            await admin.add_partitions(arguments.name, partitions, rows)
        except RefusedError as error:
            done = "the configs were altered, but no partitions were added: " if configs else ""
            raise RefusedError(f"{done}{error}", error.code) from error
    arguments.names = [arguments.name]
    await describe(admin, arguments)


def document_of(topic: MetadataResponseTopic) -> Document:
    """Returns what a broker says about a topic, for programs."""
    return {
        "kind": "topic",
        "name": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": [
            {
                "partition": each.partition_index,
                "leader": each.leader_id if each.leader_id >= 0 else None,
                "epoch": each.leader_epoch,
                "replicas": each.replica_nodes,
                "inSync": each.isr_nodes,
                "offline": each.offline_replicas,
            }
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ],
    }


def _new_topics(arguments: argparse.Namespace) -> list[NewTopic]:
    if arguments.ignore_racks:
        raise only_the_sc("--ignore-racks")
    if arguments.file is not None:
        found = [_topic_of(document) for document in documents_of_file("topic", arguments.file, arguments.name)]
    elif arguments.name is None:
        raise UsageError("give the name of the topic, or --file")
    else:
        rows = None
        if arguments.replica_assignment is not None:
            rows = _rows_of_file(arguments.replica_assignment)
        partitions, factor = arguments.partitions or -1, arguments.replication_factor or -1
        found = [NewTopic(arguments.name, partitions, factor, rows, pairs(arguments.config, "--config"))]
    return found


def _rows_of_file(path: str) -> dict[int, Sequence[int]]:
    from tailrace.cli.options.document_files import read_document
    from tailrace.cli.options.sc_options import text_of_file

    return dict(read_rows(read_document(text_of_file(path), path), path))


def _topic_of(document: Document) -> NewTopic:
    spec = document.get("spec", document)
    assert isinstance(spec, dict), "the document has been checked"
    rows = spec.get("replicaMap")
    return NewTopic(
        str(document["name"]),
        spec.get("partitions", 1),
        spec.get("replicationFactor", 1),
        None if rows is None else {int(number): row for number, row in dict(read_rows(rows, "replicaMap")).items()},
        {name: str(value) for name, value in spec.get("configs", {}).items()},
    )


async def _create_one(admin: AdminClient, topic: NewTopic, wait_seconds: float) -> Document:
    await admin.create_topic(topic)
    with trio.move_on_after(wait_seconds) as waiting:
        while wait_seconds:
            try:
                (found,) = await admin.topics([topic.name])
            except RefusedError:
                found = None
            if found is not None and found.partitions and all(each.leader_id >= 0 for each in found.partitions):
                return document_of(found)
            await trio.sleep(LOOK_AGAIN_SECONDS)
    if waiting.cancelled_caught:
        raise RefusedError(
            f"topic {topic.name} was created, but not all of its partitions have a leader after {wait_seconds:g} s",
            ErrorCode.REQUEST_TIMED_OUT,
        )
    return {"kind": "topic", "name": topic.name}


def _topic_table(topics: Sequence[MetadataResponseTopic]) -> str:
    return table(
        ("NAME", "PARTITIONS", "REPLICATION", "WITHOUT LEADER", "OUT OF SYNC"),
        [
            (
                topic.name,
                len(topic.partitions),
                max((len(each.replica_nodes) for each in topic.partitions), default=0),
                sum(each.leader_id < 0 for each in topic.partitions),
                sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions),
            )
            for topic in topics
        ],
    )


def _description(topic: MetadataResponseTopic, configs: dict[str, str | None]) -> str:
    about = fields(
        [
            ("Topic", topic.name),
            ("Id", topic.topic_id),
            ("Partitions", len(topic.partitions)),
            *((f"Config {name}", value) for name, value in configs.items()),
        ]
    )
    rows = [
        (
            each.partition_index,
            each.leader_id if each.leader_id >= 0 else None,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas or None,
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    return f"{about}\n" + table(("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "OFFLINE"), rows)
