"""`tailrace trigger list`, `describe`, `explain`, `scale`, `redeploy`, `pause`, `resume` and `delete`."""

import argparse
from collections.abc import Callable, Sequence

from tailrace.cli.options.sc_options import (
    Command,
    UsageError,
    checked_document,
    no_options,
    show_documents,
)
from tailrace.cli.output.printing import counted, plain
from tailrace.client.sc_client import Document, ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.cluster.stream_state.stream_state import StreamRead
from tailrace.controller.objects.objects import Trigger
from tailrace.controller.objects.trigger_documents import RUN_BY_HAND
from tailrace.protocol.error_codes import ErrorCode
from tailrace.trigger.functions.deployed_function import KIND

from .trigger_explanation import explanation, shard_explanation
from .trigger_facts import TriggerFacts, trigger_facts, trigger_of, without_secrets
from .trigger_tables import description, shard_documents, trigger_table


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
    parser.add_argument("--shard", metavar="N", type=int, help="Only this shard: why it makes no progress.")


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

    def changes(spec: Document) -> Document:
        if arguments.replicas is not None:
            return {"replicas": arguments.replicas, "minReplicas": None}
        most = spec["replicas"] if arguments.max is None else arguments.max
        least = arguments.min if arguments.min is not None else spec.get("minReplicas") or 1
        return {"replicas": most, "minReplicas": least}

    await _change(client, arguments, changes, _scaled)


def _scaled(trigger: Trigger) -> str:
    spec = trigger.spec
    if spec.min_replicas is None:
        return f"scaled trigger {trigger.name} to {counted(spec.replicas, 'replica')}"
    return f"scaled trigger {trigger.name} from {spec.min_replicas} to {spec.replicas} replicas"


async def _redeploy(client: ScClient, arguments: argparse.Namespace) -> None:
    await _change(
        client,
        arguments,
        lambda spec: {"revision": spec["revision"] + 1},
        lambda trigger: (
            f"trigger {trigger.name} switches to revision {trigger.spec.revision}, one replica after another"
        ),
    )


async def _pause(client: ScClient, arguments: argparse.Namespace) -> None:
    await _change(
        client,
        arguments,
        lambda _: {"paused": True},
        lambda trigger: f"paused trigger {trigger.name}; its replicas finish what they handle, and stop",
    )


async def _resume(client: ScClient, arguments: argparse.Namespace) -> None:
    await _change(
        client,
        arguments,
        lambda _: {"paused": False},
        lambda trigger: f"resumed trigger {trigger.name}; it goes on where it stopped",
    )


async def _delete(client: ScClient, arguments: argparse.Namespace) -> None:
    await client.delete(KIND, arguments.name)
    show_documents(
        arguments,
        {"kind": KIND, "name": arguments.name},
        lambda: f"deleted trigger {arguments.name}; its replicas stop, and the group keeps its committed offsets",
    )


async def _change(
    client: ScClient,
    arguments: argparse.Namespace,
    changes: Callable[[Document], Document],
    done: Callable[[Trigger], str],
) -> None:
    """Changes fields of a trigger's spec, as `changes` says for the spec as it is, and says what was done."""
    (document,) = await client.list_objects(KIND, [arguments.name])
    trigger_of(document)  # for a clear error about a document of another version
    spec = document["spec"]
    wanted = checked_document(KIND, {"name": arguments.name, "spec": {**spec, **changes(spec)}})
    updated = await client.update(KIND, wanted)
    trigger = trigger_of(updated)
    show_documents(arguments, without_secrets(updated), lambda: done(trigger))


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
