"""`tailrace spu-group …`: creates, lists, describes, scales and deletes groups of SPUs."""

import argparse
from typing import cast

from tailrace.cli.options.sc_options import (
    Command,
    UsageError,
    checked_document,
    documents_of_file,
    no_options,
    objects_in,
    only_given,
    show_documents,
    wait_seconds,
)
from tailrace.cli.output.tables import fields, table
from tailrace.client.sc_client import Document, ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.controller.objects.document_fields import size_text
from tailrace.controller.objects.objects import Object, SpuGroup, SpuGroupResolution

from .group_scaling import look_at_group, wait_for_group
from .scaling_progress import sentences


def _create_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="Name of the group, unless a file has it.")
    parser.add_argument("--replicas", metavar="N", type=int, help="Number of SPUs (default: 1).")
    parser.add_argument("--min-id", metavar="N", type=int, help="Id of the first SPU (default: 0).")
    parser.add_argument("--size", metavar="SIZE", help="Storage of each SPU, such as 2Gi (default: 1Gi).")
    parser.add_argument("--rack", metavar="RACK", help="Rack of the SPUs.")
    parser.add_argument(
        "--file", "-f", metavar="FILE", help="YAML or JSON with the specs of one or more groups, instead of options."
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=wait_seconds,
        default=0.0,
        help="Wait until the SPUs are online, at most this long.",
    )


async def _create(client: ScClient, arguments: argparse.Namespace) -> None:
    wait_ms = int(arguments.wait * 1000)
    created = [await client.create("spu-group", document, wait_ms) for document in _created(arguments)]
    groups = _groups(objects_in("spu-group", created))
    show_documents(arguments, created, lambda: "\n".join(map(_creation_text, groups)))
    invalid = next((group for group in groups if group.status.resolution is SpuGroupResolution.INVALID), None)
    if wait_ms and invalid is not None:
        raise RefusedError(f"SPU group {invalid.name} is Invalid, so its SPUs never start: {invalid.status.reason}")


def _created(arguments: argparse.Namespace) -> list[Document]:
    if arguments.file is not None:
        if any(each is not None for each in (arguments.replicas, arguments.min_id, arguments.size, arguments.rack)):
            raise UsageError("--file: write replicas, ids, size and rack into the file, not into options")
        return documents_of_file("spu-group", arguments.file, arguments.name)
    if arguments.name is None:
        raise UsageError("give the name of the group, or --file")
    template: Document = only_given({"rack": arguments.rack})
    if arguments.size is not None:
        template["storage"] = {"size": arguments.size}
    given = {"replicas": arguments.replicas, "minId": arguments.min_id, "template": template or None}
    return [checked_document("spu-group", {"name": arguments.name} | only_given(given))]


def _creation_text(group: SpuGroup) -> str:
    reason = f": {group.status.reason}" if group.status.reason else ""
    return f"created SPU group {group.name}; its status is {group.status.resolution.value}{reason}"


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("spu-group")
    groups = _groups(objects_in("spu-group", documents))
    show_documents(arguments, documents, lambda: group_table(groups))


def group_table(groups: list[SpuGroup]) -> str:
    """Formats SPU groups, one in each row."""
    return table(
        ("NAME", "REPLICAS", "IDS", "SIZE", "RACK", "STATUS", "REASON"),
        [
            (
                group.name,
                group.spec.replicas,
                ids_of(group),
                size_text(group.spec.template.size_bytes),
                group.spec.template.rack,
                group.status.resolution.value,
                group.status.reason,
            )
            for group in groups
        ],
    )


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="Names of the groups.")


async def _describe(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("spu-group", arguments.names)
    groups = _groups(objects_in("spu-group", documents))
    show_documents(arguments, documents, lambda: "\n\n".join(map(description, groups)))


def description(group: SpuGroup) -> str:
    """Describes an SPU group."""
    template = group.spec.template
    return fields(
        [
            ("SPU group", group.name),
            ("Replicas", group.spec.replicas),
            ("Ids", ids_of(group)),
            ("Rack", template.rack),
            ("Storage", size_text(template.size_bytes)),
            ("Log directory", template.log_directory),
            ("Public port", " ".join(filter(None, (str(template.public.port), template.public.encryption)))),
            ("Private port", " ".join(filter(None, (str(template.private.port), template.private.encryption)))),
            *((f"Config {name}", value) for name, value in template.configs.items()),
            ("Status", group.status.resolution.value),
            ("Reason", group.status.reason),
        ]
    )


def _scale_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="Name of the group.")
    parser.add_argument(
        "replicas",
        metavar="REPLICAS",
        type=int,
        nargs="?",
        help="New number of SPUs; if it is smaller, the SPUs with the highest ids stop.",
    )
    parser.add_argument("--replicas", metavar="N", type=int, dest="replicas_flag", help="Same as REPLICAS.")
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=wait_seconds,
        default=0.0,
        help="Wait until the SPUs have started or left, at most this long, and show the progress.",
    )


async def _scale(client: ScClient, arguments: argparse.Namespace) -> None:
    replicas = _replicas(arguments)
    (document,) = await client.list_objects("spu-group", [arguments.name])
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise RefusedError(f"SPU group {arguments.name} has no spec")
    wanted = {"name": arguments.name, "spec": spec | {"replicas": replicas}}
    updated = await client.update("spu-group", checked_document("spu-group", wanted))
    (group,) = _groups(objects_in("spu-group", [updated]))
    stays = [] if arguments.wait else sentences(await look_at_group(client, group.name))
    done = f"scaled SPU group {group.name} to {_spus_text(group.spec.replicas)}"
    if arguments.wait:
        await wait_for_group(client, group.name, arguments.wait)
        done += "; all of its SPUs are online, and no other is left"
    show_documents(arguments, updated, lambda: "\n".join((done, *stays)))


def _spus_text(count: int) -> str:
    return "1 SPU" if count == 1 else f"{count} SPUs"


def _replicas(arguments: argparse.Namespace) -> int:
    given = [each for each in (arguments.replicas, arguments.replicas_flag) if each is not None]
    if len(given) != 1:
        raise UsageError("give the number of SPUs once: REPLICAS or --replicas N")
    return int(given[0])


def _delete_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="Name of the group.")
    parser.add_argument(
        "--force", action="store_true", help="Delete the group even if its SPUs hold replicas, which are then lost."
    )


async def _delete(client: ScClient, arguments: argparse.Namespace) -> None:
    await client.delete("spu-group", arguments.name, force=arguments.force)
    show_documents(
        arguments,
        {"kind": "spu-group", "name": arguments.name},
        lambda: f"deleted SPU group {arguments.name}; its SPUs stop",
    )


def ids_of(group: SpuGroup) -> str:
    """Formats the range of the ids in a group."""
    first, last = group.spec.min_id, group.spec.min_id + group.spec.replicas - 1
    return "" if last < first else str(first) if last == first else f"{first}-{last}"


def _groups(found: list[Object]) -> list[SpuGroup]:
    return cast(list[SpuGroup], found)


COMMANDS = {
    "create": Command("spu-group create", _create_options, _create),
    "list": Command("spu-group list", no_options, _list, is_watchable=True),
    "describe": Command("spu-group describe", _describe_options, _describe, is_watchable=True),
    "scale": Command("spu-group scale", _scale_options, _scale),
    "delete": Command("spu-group delete", _delete_options, _delete),
}
