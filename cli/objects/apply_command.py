"""`tailrace apply`: creates or changes SPUs, SPU groups, topics and triggers so that they match files.

Objects that match already are not changed, so a script may apply the same files again and again. A topic also matches
only if its replicas are where the file wants them: the SC may have moved some.
"""

import argparse
from functools import partial
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cli.options.document_files import DocumentError
from tailrace.cli.options.sc_options import (
    Command,
    NotInEffectError,
    objects_in,
    objects_of_file,
    say_without_effect,
    show_documents,
)
from tailrace.client.sc_client import Document, ScClient
from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import folded, parse_object
from tailrace.controller.objects.objects import (
    Object,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    Topic,
    TopicResolution,
    Trigger,
)
from tailrace.controller.objects.trigger_documents import HIDDEN

from .unfinished_topics import waiting_topics

KINDS = ("spu", "spu-group", "topic", "trigger")

Applicable = Spu | SpuGroup | Topic | Trigger


class Wanted(Struct, frozen=True):
    """An object as a file describes it."""

    kind: str
    document: Document
    object: Applicable


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file", "-f", metavar="FILE", action="append", required=True, help="YAML or JSON; may be repeated."
    )
    parser.add_argument("--kind", choices=KINDS, help="Kind of the documents that do not name it.")
    parser.add_argument("--name", metavar="NAME", help="Name of an SPU group or topic whose document does not have it.")


async def _apply(client: ScClient, arguments: argparse.Namespace) -> None:
    wanted = [each for path in arguments.file for each in wanted_by(path, arguments.kind, arguments.name)]
    there = {
        (kind, name_of(each)): each
        for kind in {each.kind for each in wanted}
        for each in _objects(kind, await client.list_objects(kind))
    }
    documents = []
    for each in wanted:
        document, outcome = await _apply_one(client, each, there.get((each.kind, name_of(each.object))))
        documents.append(document)
        (found,) = _objects(each.kind, [document])
        there[each.kind, name_of(found)] = found
        if arguments.output == "table":  # one by one, so that the output is complete up to a refusal
            show_documents(arguments, document, partial(_text, each.kind, found, outcome))
    if arguments.output != "table":
        show_documents(arguments, documents, str)
    applied = {(each.kind, name_of(each.object)): there[each.kind, name_of(each.object)] for each in wanted}
    waiting = waiting_topics(each for each in applied.values() if isinstance(each, Topic))
    if waiting:
        raise NotInEffectError(waiting)


def wanted_by(path: str, kind: str | None, name: str | None) -> list[Wanted]:
    """Reads the objects of a file, and checks them as far as possible. Raises DocumentError."""
    wanted = []
    for document in objects_of_file(path):
        try:
            found_kind = _kind_of(document, kind)
            found = parse_object(found_kind, document, None if found_kind == "spu" else name)
        except FieldError as error:
            raise DocumentError(f"{path}: {error}") from error
        assert isinstance(document, dict), "parse_object accepts only dictionaries"
        if isinstance(found, Topic):
            say_without_effect("apply", found.spec.configs, TOPIC_CONFIGS)
        elif isinstance(found, Trigger) and found.spec.config.get("access_key") == HIDDEN:
            raise DocumentError(f"{path}: config.access_key: {HIDDEN} stands for a key that commands do not show")
        elif isinstance(found, SpuGroup):
            say_without_effect("apply", found.spec.template.configs, BROKER_CONFIGS)
        named = document if found_kind == "spu" or name is None else {"name": name} | document
        wanted.append(Wanted(found_kind, named, cast(Applicable, found)))
    if not wanted:
        raise DocumentError(f"{path}: the file has no document")
    return wanted


def _kind_of(document: object, default: str | None) -> str:
    stated = document.get("kind", default) if isinstance(document, dict) else default
    if stated is None:
        raise FieldError(f"kind: it is missing; add it or give --kind (one of {', '.join(KINDS)})")
    found = next((kind for kind in KINDS if folded(str(stated)) == folded(kind)), None)
    if found is None:
        raise FieldError(f"kind: {str(stated)!r:.100} is not one of {', '.join(KINDS)}")
    return found


async def _apply_one(client: ScClient, wanted: Wanted, there: Applicable | None) -> tuple[Document, str]:
    """Creates or changes one object; returns its new state, and a word for what was done."""
    if there is None:
        return await client.create(wanted.kind, wanted.document), "created"
    if _matches(there, wanted.object) and not (isinstance(there, Topic) and has_strayed(there)):
        (document,) = await client.list_objects(wanted.kind, [name_of(there)])
        return document, "unchanged"
    return await client.update(wanted.kind, wanted.document), "updated"


def _matches(there: Applicable, wanted: Applicable) -> bool:
    """Whether the spec is as wanted. A trigger may have a later revision than the file says."""
    if isinstance(there, Trigger) and isinstance(wanted, Trigger) and wanted.spec.revision <= there.spec.revision:
        return replace(wanted.spec, revision=there.spec.revision) == there.spec
    return there.spec == wanted.spec


def has_strayed(topic: Topic) -> bool:
    """Whether the SC has moved a replica away from where the topic's spec wants it."""
    rows = topic.status.replica_map
    return any(rows.get(number, row) != row for number, row in topic.spec.replica_map.items())


def name_of(found: Applicable) -> str:
    """Returns the name of an object, which is the id of an SPU."""
    return str(found.spec.id) if isinstance(found, Spu) else found.name


def _text(kind: str, found: Applicable, outcome: str) -> str:
    status = found.status
    reason = f": {status.reason}" if status.reason else ""
    is_well = isinstance(found, Spu | Trigger) or status.resolution in (
        TopicResolution.PROVISIONED,
        SpuGroupResolution.RESERVED,
    )
    return f"{kind} {name_of(found)} {outcome}" + (
        "" if is_well else f"; its status is {status.resolution.value}{reason}"
    )


def _objects(kind: str, documents: list[Document]) -> list[Applicable]:
    found: list[Object] = objects_in(kind, documents)
    return cast(list[Applicable], found)


COMMANDS = {"apply": Command("apply", _options, _apply)}
