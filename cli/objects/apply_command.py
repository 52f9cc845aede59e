"""`tailrace apply`: creates or changes SPUs, SPU groups and topics so that they match files.

Objects that match already are not changed, so a script may apply the same files again and again. The replicas of a
topic cannot be moved: a file with other replicas is refused.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import cast

from msgspec import Struct

from tailrace.cli.clients.sc_client import Document, ScClient
from tailrace.cli.clients.server_connection import RefusedError
from tailrace.cli.options.document_files import DocumentError
from tailrace.cli.options.sc_options import Command, objects_in, objects_of_file, show_documents
from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import folded, parse_object
from tailrace.controller.objects.objects import Object, Spu, SpuGroup, SpuGroupResolution, Topic, TopicResolution
from tailrace.protocol.ids import SpuId

KINDS = ("spu", "spu-group", "topic")

Applicable = Spu | SpuGroup | Topic


class Wanted(Struct, frozen=True):
    """An object as a file describes it."""

    kind: str
    document: Document
    object: Applicable


class TopicChanges(Struct, frozen=True):
    """What must be changed in an existing topic."""

    configs: Mapping[str, str | None]
    """The configs to set; None resets a config to its default."""
    partitions: int | None
    """The new number of partitions; None if no partitions are added."""
    rows: list[tuple[SpuId, ...]] | None
    """The SPUs of each added partition; None if the SC chooses them."""


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
    if isinstance(wanted.object, Topic) and isinstance(there, Topic):
        changes = topic_changes(there, wanted.object)
        if changes.configs:
            await client.alter_topic_configs(there.name, changes.configs)
        if changes.partitions is not None:
            await client.add_partitions(there.name, changes.partitions, changes.rows)
        (document,) = await client.list_objects("topic", [there.name])
        return document, "updated" if changes.configs or changes.partitions is not None else "unchanged"
    if there.spec == wanted.object.spec:
        (document,) = await client.list_objects(wanted.kind, [name_of(there)])
        return document, "unchanged"
    return await client.update(wanted.kind, wanted.document), "updated"


def topic_changes(there: Topic, wanted: Topic) -> TopicChanges:
    """Returns the changes that turn `there` into `wanted`. Raises RefusedError if they are impossible."""
    before, after = there.spec, wanted.spec
    rows = {**before.replica_map, **there.status.replica_map}
    if after.replication_factor != before.replication_factor:
        raise _unchangeable(there, f"replicationFactor: it is {before.replication_factor} and cannot be changed")
    if after.ignores_racks != before.ignores_racks:
        value = str(before.ignores_racks).lower()
        raise _unchangeable(there, f"ignoreRackAssignment: it is {value} and cannot be changed")
    if after.partitions < before.partitions:
        raise _unchangeable(there, f"partitions: the topic has {before.partitions}, and none can be removed")
    moved = next((number for number, row in after.replica_map.items() if rows.get(number, row) != row), None)
    if moved is not None:
        raise _unchangeable(there, f"replicaMap.{moved}: the replicas are {list(rows[moved])} and cannot be moved")
    added = range(before.partitions, after.partitions)
    chosen = [after.replica_map[number] for number in added if number in after.replica_map]
    if chosen and len(chosen) != len(added):
        raise _unchangeable(there, "replicaMap: give rows for all added partitions, or for none")
    configs: dict[str, str | None] = {name: None for name in before.configs if name not in after.configs}
    configs |= {name: value for name, value in after.configs.items() if before.configs.get(name) != value}
    return TopicChanges(configs, after.partitions if added else None, chosen or None)


def _unchangeable(topic: Topic, why: str) -> RefusedError:
    return RefusedError(f"topic {topic.name}: {why}")


def name_of(found: Applicable) -> str:
    """Returns the name of an object, which is the id of an SPU."""
    return str(found.spec.id) if isinstance(found, Spu) else found.name


def _text(kind: str, found: Applicable, outcome: str) -> str:
    status = found.status
    reason = f": {status.reason}" if status.reason else ""
    is_well = isinstance(found, Spu) or status.resolution in (TopicResolution.PROVISIONED, SpuGroupResolution.RESERVED)
    return f"{kind} {name_of(found)} {outcome}" + (
        "" if is_well else f"; its status is {status.resolution.value}{reason}"
    )


def _objects(kind: str, documents: list[Document]) -> list[Applicable]:
    found: list[Object] = objects_in(kind, documents)
    return cast(list[Applicable], found)


COMMANDS = {"apply": Command("apply", _options, _apply)}
