"""`tailrace trigger list`, `describe`, `explain`, `scale`, `redeploy`, `pause`, `resume` and `delete`."""

import argparse
from collections.abc import Sequence

from tailrace.cli.options.sc_options import (
    Command,
    UsageError,
    checked_document,
    no_options,
    show_documents,
)
from tailrace.cli.output.printing import plain
from tailrace.client.sc_client import Document, ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.cluster.stream_state.stream_state import StreamRead
from tailrace.controller.objects.objects import Trigger
from tailrace.protocol.error_codes import ErrorCode

from .trigger_explanation import explanation, shard_explanation
from .trigger_facts import TriggerFacts, trigger_facts, trigger_of, without_secrets
from .trigger_tables import description, replicas_text, shard_documents, trigger_table

KIND = "trigger"
RUN_BY_HAND = "trigger-run-by-hand"
"""The kind under which the SC lists triggers that are not deployed, and whose replicas report."""


def name_option(parser: argparse.ArgumentParser) -> None:
    """Adds the name of one trigger."""
    parser.add_argument("name", metavar="NAME", help="Name of the trigger.")


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = [*await client.list_objects(KIND), *await client.list_objects(RUN_BY_HAND)]
    show_documents(arguments, list(map(without_secrets, documents)), lambda: trigger_table(documents))


async def _documents(client: ScClient, names: Sequence[str]) -> list[Document]:
    """Returns the documents of some triggers, deployed or run by hand. Raises RefusedError for an unknown one."""
    by_hand = {each["name"]: each for each in await client.list_objects(RUN_BY_HAND, names)}
    deployed = await client.list_objects(KIND, [name for name in names if name not in by_hand])
    found = {each["name"]: each for each in deployed} | by_hand
    return [found[name] for name in dict.fromkeys(names)]


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="Names of the triggers.")


async def _describe(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await _documents(client, arguments.names)
    facts = [await _facts(client, each) for each in documents]
    shown = [
        without_secrets(document) | {"status": {**document["status"], "shards": shard_documents(found)}}
        for document, found in zip(documents, facts, strict=True)
    ]
    show_documents(arguments, shown, lambda: "\n\n".join(map(description, facts)))


async def _facts(client: ScClient, document: Document) -> TriggerFacts:
    spec = trigger_of(document).spec
    try:
        read = await client.read_stream_state(spec.topic, spec.group)
        partitions = (await client.describe_partitions([spec.topic])).partitions
    except RefusedError as error:
        if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.RESOURCE_NOT_FOUND):
            raise
        return trigger_facts(document, StreamRead(0), [])
    return trigger_facts(document, read, partitions)


def _explain_options(parser: argparse.ArgumentParser) -> None:
    name_option(parser)
    parser.add_argument("--shard", metavar="N", type=int, help="Only this shard: why it does not move.")


async def _explain(client: ScClient, arguments: argparse.Namespace) -> None:
    (document,) = await _documents(client, [arguments.name])
    facts = await _facts(client, document)
    number = arguments.shard
    if number is None:
        sentences = explanation(facts)
    elif 0 <= number < len(facts.shards):
        sentences = shard_explanation(facts, number)
    elif facts.shards:
        raise UsageError(f"--shard {number}: {facts.trigger.spec.topic} has shards from 0 to {len(facts.shards) - 1}")
    else:
        sentences = explanation(facts)
    shown = {"trigger": arguments.name, "explanation": sentences}
    show_documents(arguments, shown, lambda: "\n".join(map(plain, sentences)))


def _scale_options(parser: argparse.ArgumentParser) -> None:
    name_option(parser)
    parser.add_argument("replicas", metavar="REPLICAS", type=int, nargs="?", help="New number of replicas.")
    parser.add_argument("--min", metavar="N", type=int, help="Smallest number of replicas; the number follows the lag.")
    parser.add_argument("--max", metavar="N", type=int, help="Largest number of replicas; the number follows the lag.")


async def _scale(client: ScClient, arguments: argparse.Namespace) -> None:
    if (arguments.replicas is None) == (arguments.min is None and arguments.max is None):
        raise UsageError("give the number of replicas, or the limits with --min and --max")
    spec = await _spec(client, arguments.name)
    if arguments.replicas is not None:
        changes: Document = {"replicas": arguments.replicas, "minReplicas": None}
    else:
        most = spec["replicas"] if arguments.max is None else arguments.max
        least = arguments.min if arguments.min is not None else spec.get("minReplicas") or 1
        changes = {"replicas": most, "minReplicas": least}
    updated, trigger = await _change(client, arguments.name, spec, changes)
    limits = trigger.spec.min_replicas is not None
    done = f"from {trigger.spec.min_replicas} to {trigger.spec.replicas} replicas" if limits else replicas_text(trigger)
    if not limits:
        done = f"to {trigger.spec.replicas} replicas" if trigger.spec.replicas != 1 else "to 1 replica"
    show_documents(arguments, updated, lambda: f"scaled trigger {trigger.name} {done}")


async def _redeploy(client: ScClient, arguments: argparse.Namespace) -> None:
    spec = await _spec(client, arguments.name)
    updated, trigger = await _change(client, arguments.name, spec, {"revision": spec["revision"] + 1})
    show_documents(
        arguments,
        updated,
        lambda: f"trigger {trigger.name} goes over to revision {trigger.spec.revision}, one replica after the other",
    )


async def _pause(client: ScClient, arguments: argparse.Namespace) -> None:
    updated, trigger = await _change(client, arguments.name, await _spec(client, arguments.name), {"paused": True})
    show_documents(
        arguments,
        updated,
        lambda: f"paused trigger {trigger.name}; its replicas finish what they handle, and stop",
    )


async def _resume(client: ScClient, arguments: argparse.Namespace) -> None:
    updated, trigger = await _change(client, arguments.name, await _spec(client, arguments.name), {"paused": False})
    show_documents(arguments, updated, lambda: f"resumed trigger {trigger.name}; it goes on where it stopped")


async def _delete(client: ScClient, arguments: argparse.Namespace) -> None:
    await client.delete(KIND, arguments.name)
    show_documents(
        arguments,
        {"kind": KIND, "name": arguments.name},
        lambda: f"deleted trigger {arguments.name}; its replicas stop, and the group keeps its committed offsets",
    )


async def _spec(client: ScClient, name: str) -> Document:
    (document,) = await client.list_objects(KIND, [name])
    trigger_of(document)  # for a clear error about a document of another version
    spec: Document = document["spec"]
    return spec


async def _change(client: ScClient, name: str, spec: Document, changes: Document) -> tuple[Document, Trigger]:
    wanted = checked_document(KIND, {"name": name, "spec": {**spec, **changes}})
    updated = await client.update(KIND, wanted)
    return without_secrets(updated), trigger_of(updated)


COMMANDS = {
    "list": Command("trigger list", no_options, _list, is_watchable=True),
    "describe": Command("trigger describe", _describe_options, _describe, is_watchable=True),
    "explain": Command("trigger explain", _explain_options, _explain, is_watchable=True),
    "scale": Command("trigger scale", _scale_options, _scale),
    "redeploy": Command("trigger redeploy", name_option, _redeploy),
    "pause": Command("trigger pause", name_option, _pause),
    "resume": Command("trigger resume", name_option, _resume),
    "delete": Command("trigger delete", name_option, _delete),
}
