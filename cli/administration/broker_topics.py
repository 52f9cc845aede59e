"""`tailrace topic …` with `--bootstrap`: what any broker can do for topics, with Kafka's protocol alone.

The documents have the form of those that the SC sends. So `tailrace apply` creates topics of Apache Kafka in Tailrace.
"""

import argparse
from collections.abc import Mapping, Sequence

import trio

from tailrace.cli.options.sc_options import show_documents
from tailrace.cli.options.spu_options import only_the_sc
from tailrace.cli.options.topic_options import wanted_topics
from tailrace.cli.output.tables import fields, table
from tailrace.client.admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource, NewTopic
from tailrace.client.server_connection import RefusedError, unless_refused
from tailrace.controller.objects.object_documents import read_document
from tailrace.controller.objects.objects import Topic, TopicResolution, TopicSpec, TopicStatus
from tailrace.controller.objects.topic_documents import topic_document
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.metadata import MetadataResponseTopic

from .broker_partitions import partitions_of
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
    await show_list(
        admin, arguments, [topic for topic in await admin.topics() if arguments.internal or not topic.is_internal]
    )


async def show_list(admin: AdminClient, arguments: argparse.Namespace, topics: Sequence[MetadataResponseTopic]) -> None:
    """Shows topics as a table, or as documents with the configs that were set for them."""
    configs = {} if arguments.output == "table" else await _own_configs(admin, topics)
    documents = [document_of(each, configs.get(each.name or "", {})) for each in topics]
    show_documents(arguments, documents, lambda: _topic_table(topics))


async def describe(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Describes topics with their configs and partitions."""
    topics = await admin.topics(arguments.names)
    configs = await _own_configs(admin, topics)
    documents = [document_of(each, configs[each.name or ""]) for each in topics]
    show_documents(
        arguments,
        documents,
        lambda: "\n\n".join(_description(each, configs[each.name or ""]) for each in topics),
    )


async def _own_configs(admin: AdminClient, topics: Sequence[MetadataResponseTopic]) -> dict[str, dict[str, str]]:
    """Returns the configs that were set for each topic."""
    found = await admin.configs_of(ConfigResource(TOPIC_RESOURCE, each.name or "") for each in topics)
    return {
        resource.name: {
            config.name: config.value or "" for config in unless_refused(configs) if config.source == DYNAMIC_TOPIC
        }
        for resource, configs in found.items()
    }


async def delete(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Deletes a topic through a broker."""
    await admin.delete_topic(arguments.name)
    document = {"kind": "topic", "name": arguments.name}
    show_documents(arguments, document, lambda: f"deleted topic {arguments.name}")


async def alter(
    admin: AdminClient,
    name: str,
    configs: dict[str, str | None],
    partitions: int | None,
    rows: Sequence[Sequence[int]] | None,
) -> None:
    """Sets configs of a topic, and adds partitions."""
    if configs:
        await admin.alter_configs(ConfigResource(TOPIC_RESOURCE, name), configs)
    if partitions is not None:
        try:
            await admin.add_partitions(name, partitions, rows)
        except RefusedError as error:
            done = "the configs were altered, but no partitions were added: " if configs else ""
            raise RefusedError(f"{done}{error}", error.code) from error


def document_of(topic: MetadataResponseTopic, configs: Mapping[str, str]) -> Document:
    """Returns a topic as the SC would describe it; `configs` are those that were set for the topic."""
    partitions = partitions_of(topic)
    leaderless = sum(each.leader is None for each in partitions)
    reason = f"{leaderless} of {len(partitions)} partitions have no leader" if leaderless else ""
    known = Topic(
        topic.name or "",
        topic.topic_id,
        TopicSpec(len(partitions), _replication_factor(topic), configs=configs),
        TopicStatus(
            TopicResolution.PROVISIONED,
            {each.name.number: tuple(map(SpuId, each.replicas)) for each in partitions},
            reason,
        ),
    )
    return {"kind": "topic", **topic_document(known)}


def _replication_factor(topic: MetadataResponseTopic) -> int:
    """Returns the largest number of replicas of a partition: `topic alter` changes one partition after the other."""
    return max((len(each.replica_nodes) for each in topic.partitions), default=0)


def _new_topics(arguments: argparse.Namespace) -> list[NewTopic]:
    if arguments.ignore_racks:
        raise only_the_sc("--ignore-racks")
    return [_topic_of(document) for document in wanted_topics(arguments)]


def _topic_of(document: Document) -> NewTopic:
    topic = read_document("topic", document)
    assert isinstance(topic, Topic)
    spec, given = topic.spec, document.get("spec", document) or {}
    assert isinstance(given, dict), "otherwise the document is refused"
    return NewTopic(
        topic.name,
        -1 if given.get("partitions") is None else spec.partitions,
        -1 if given.get("replicationFactor") is None else spec.replication_factor,
        spec.replica_map,
        spec.configs,
    )


async def _create_one(admin: AdminClient, topic: NewTopic, wait_seconds: float) -> Document:
    await admin.create_topic(topic)
    with trio.move_on_after(wait_seconds) as waiting:
        while wait_seconds:
            try:
                (found,) = await admin.topics([topic.name])
            except RefusedError:
                found = None
            if found is not None and found.partitions and all(each.leader is not None for each in partitions_of(found)):
                return document_of(found, topic.configs)
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
                _replication_factor(topic),
                sum(each.leader is None for each in partitions_of(topic)),
                sum(len(each.in_sync) < len(each.replicas) for each in partitions_of(topic)),
            )
            for topic in topics
        ],
    )


def _description(topic: MetadataResponseTopic, configs: Mapping[str, str]) -> str:
    about = fields(
        [
            ("Topic", topic.name),
            ("Id", topic.topic_id),
            ("Partitions", len(topic.partitions)),
            *((f"Config {name}", value) for name, value in configs.items()),
        ]
    )
    rows = [
        (each.name.number, each.leader, list(each.replicas), list(each.in_sync), list(each.offline) or None)
        for each in partitions_of(topic)
    ]
    return f"{about}\n" + table(("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "OFFLINE"), rows)
