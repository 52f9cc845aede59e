"""`tailrace topic …`: creates, lists, describes, alters, deletes and restores topics."""

import argparse
from typing import cast

from tailrace.cli.administration import broker_topics
from tailrace.cli.options.sc_options import (
    Command,
    NotInEffectError,
    internal_option,
    objects_in,
    say_without_effect,
    show_documents,
    without_internal,
)
from tailrace.cli.options.spu_options import broker_command
from tailrace.cli.options.topic_options import create_options, wanted_topics
from tailrace.client.sc_client import Document, ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.controller.objects.object_documents import parse_object
from tailrace.controller.objects.objects import DeletedTopic, Object, Topic
from tailrace.protocol.error_codes import ErrorCode

from .topic_alteration import alter, alter_options, alter_through_broker
from .topic_tables import creation_text, deleted_table, description, state_unless_provisioned, topic_table
from .unfinished_topics import is_in_effect, waiting_topics


async def _create(client: ScClient, arguments: argparse.Namespace) -> None:
    wait_ms = int(arguments.wait * 1000)
    wanted = wanted_topics(arguments)
    for document in wanted:
        topic = parse_object("topic", document)
        assert isinstance(topic, Topic)
        say_without_effect("topic create", topic.spec.configs, TOPIC_CONFIGS)
    created = [await _create_one(client, document, wait_ms) for document in wanted]
    topics = _topics(objects_in("topic", created))
    show_documents(arguments, created, lambda: "\n".join(map(creation_text, topics)))
    _check_in_effect(topics)


async def _create_one(client: ScClient, document: Document, wait_ms: int) -> Document:
    """Creates a topic. If it still waits for SPUs at the end of `--wait`, it was created all the same."""
    try:
        return await client.create("topic", document, wait_ms)
    except RefusedError as error:
        if error.code != ErrorCode.REQUEST_TIMED_OUT:
            raise
        (created,) = await client.list_objects("topic", [document["name"]])
        if is_in_effect(*_topics(objects_in("topic", [created]))):
            raise
        return created


def _check_in_effect(topics: list[Topic]) -> None:
    waiting = waiting_topics(topics)
    if waiting:
        raise NotInEffectError(waiting)


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--deleted", action="store_true", help="List deleted topics that can be restored.")
    internal_option(parser)


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    if arguments.deleted:
        documents = await client.list_objects("deleted-topic")
        deleted = cast(list[DeletedTopic], objects_in("deleted-topic", documents))
        show_documents(arguments, documents, lambda: deleted_table(deleted))
        return
    documents = without_internal(arguments, await client.list_objects("topic"), lambda each: str(each["name"]))
    topics = _topics(objects_in("topic", documents))
    show_documents(arguments, documents, lambda: topic_table(topics))


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+")


async def _describe(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("topic", arguments.names)
    topics = _topics(objects_in("topic", documents))
    show_documents(arguments, documents, lambda: "\n\n".join(map(description, topics)))


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
    show_documents(arguments, document, lambda: f"restored topic {topic.name}{state_unless_provisioned(topic)}")
    _check_in_effect([topic])


def _topics(found: list[Object]) -> list[Topic]:
    return cast(list[Topic], found)


COMMANDS = {
    "create": broker_command("topic create", create_options, _create, broker_topics.create),
    "list": broker_command("topic list", _list_options, _list, broker_topics.list_topics, is_watchable=True),
    "describe": broker_command(
        "topic describe", _describe_options, _describe, broker_topics.describe, is_watchable=True
    ),
    "delete": broker_command("topic delete", _delete_options, _delete, broker_topics.delete),
    "undelete": Command("topic undelete", _undelete_options, _undelete),
    "alter": broker_command("topic alter", alter_options, alter, alter_through_broker),
}
