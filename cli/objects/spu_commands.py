"""`tailrace spu …`: registers, lists, describes and unregisters SPUs."""

import argparse
from typing import cast

from tailrace.cli.administration.broker_list import list_brokers
from tailrace.cli.objects.spu_controllers import Controllers, controllers_of
from tailrace.cli.options.sc_options import (
    Command,
    UsageError,
    checked_document,
    documents_of_file,
    no_options,
    objects_in,
    only_given,
    show_documents,
)
from tailrace.cli.options.spu_options import broker_command
from tailrace.cli.output.tables import fields, table
from tailrace.client.sc_client import Document, ScClient
from tailrace.controller.objects.document_fields import size_text
from tailrace.controller.objects.object_documents import parse_object
from tailrace.controller.objects.objects import Object, PrivateEndpoint, Spu, SpuType
from tailrace.runtime.network import WILDCARD_HOSTS
from tailrace.runtime.settings import parse_address

from .controller_tables import controller_fields, controller_tables, controllers_document


def _register_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", metavar="N", type=int, help="Id of the SPU, unique in the cluster.")
    parser.add_argument("--public", metavar="HOST:PORT", help="Address at which clients reach the SPU.")
    parser.add_argument("--private", metavar="HOST:PORT", help="Address at which other SPUs reach the SPU.")
    parser.add_argument("--rack", metavar="RACK", help="Rack of the SPU; replicas are spread over racks.")
    parser.add_argument(
        "--file", "-f", metavar="FILE", help="YAML or JSON with the specs of one or more SPUs, instead of options."
    )


async def _register(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = [await _registered_once(client, document) for document in _registered(arguments)]
    spus = _spus(objects_in("spu", documents))
    show_documents(arguments, documents, lambda: "\n".join(map(_registration_text, spus)))


async def _registered_once(client: ScClient, document: Document) -> Document:
    """Registers an SPU unless it is registered with the same spec, so that scripts may register it repeatedly."""
    wanted = parse_object("spu", document)
    for there in await client.list_objects("spu"):
        (spu,) = _spus(objects_in("spu", [there]))
        if isinstance(wanted, Spu) and spu.spec == wanted.spec:
            return there
    return await client.create("spu", document)


def _registered(arguments: argparse.Namespace) -> list[Document]:
    flags = (arguments.id, arguments.public, arguments.private)
    if arguments.file is not None:
        if any(flag is not None for flag in (*flags, arguments.rack)):
            raise UsageError("--file: write id, endpoints and rack into the file, not into options")
        return documents_of_file("spu", arguments.file, None)
    if None in flags:
        raise UsageError("give --id, --public and --private, or --file")
    public = parse_address(arguments.public, "--public")
    private = parse_address(arguments.private, "--private")
    for flag, address in (("--public", public), ("--private", private)):
        if address.host in WILDCARD_HOSTS:
            raise UsageError(f"{flag} {address}: give an address at which others can reach the SPU")
    document: Document = {
        "spuId": arguments.id,
        "publicEndpoint": {"port": public.port, "ingress": [{"hostname": public.host}]},
        "privateEndpoint": {"port": private.port, "host": private.host},
    }
    return [checked_document("spu", document | only_given({"rack": arguments.rack}))]


def _registration_text(spu: Spu) -> str:
    return (
        f"registered SPU {spu.spec.id}; start it with: tailrace serve spu --id {spu.spec.id} --data DIR "
        f"--sc HOST:9004 --public {public_of(spu)} --private {private_of(spu)}"
    )


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("spu")
    spus = _spus(objects_in("spu", documents))
    show_documents(arguments, documents, lambda: spu_table(spus))


def spu_table(spus: list[Spu]) -> str:
    """Lists SPUs, with a column of reasons if one of them has a problem (offline, or its storage is full)."""
    gives_reasons = any(spu.status.reason for spu in spus)
    return table(
        ("ID", "TYPE", "GROUP", "RACK", "STATUS", "PUBLIC", "PRIVATE", *(("REASON",) if gives_reasons else ())),
        [
            (
                spu.spec.id,
                spu.spec.type.value,
                spu.spec.group,
                spu.spec.rack,
                spu.status.resolution.value,
                _reached_at(spu),
                _reached_privately_at(spu),
                *((spu.status.reason,) if gives_reasons else ()),
            )
            for spu in spus
        ],
    )


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="Ids of the SPUs.")


async def _describe(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("spu", arguments.ids)
    spus = _spus(objects_in("spu", documents))
    controllers = await controllers_of(client.network, spus)
    documents = [
        document | {"controllers": controllers_document(controllers[spu.spec.id])}
        for document, spu in zip(documents, spus, strict=True)
    ]
    texts = [description(spu, controllers[spu.spec.id]) for spu in spus]
    show_documents(arguments, documents, lambda: "\n\n".join(texts))


def description(spu: Spu, controllers: Controllers) -> str:
    """Describes an SPU and its controllers."""
    spec, status = spu.spec, spu.status
    about = fields(
        [
            ("SPU", spec.id),
            ("Type", spec.type.value),
            ("Group", spec.group),
            ("Rack", spec.rack),
            ("Storage", size_text(spec.size_bytes)),
            ("Log directory", spec.log_directory),
            ("Public endpoint", " ".join(filter(None, (public_of(spu), spec.public.encryption)))),
            ("Private endpoint", " ".join(filter(None, (private_of(spu), spec.private.encryption)))),
            *((f"Config {name}", value) for name, value in spec.configs.items()),
            ("Status", status.resolution.value),
            ("Reason", status.reason),
            ("Incarnation", status.incarnation),
            *((f"Listener {each.name}", f"{each.host}:{each.port} {each.protocol}") for each in status.listeners),
            ("Reported private", None if status.private is None else f"{status.private} {status.private_protocol}"),
            *controller_fields(controllers),
        ]
    )
    return "\n".join((about, *controller_tables(controllers)))


def _unregister_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="Id of the SPU.")
    parser.add_argument(
        "--force", action="store_true", help="Remove the SPU even if it holds replicas, which are then lost."
    )


async def _unregister(client: ScClient, arguments: argparse.Namespace) -> None:
    await client.delete("spu", arguments.id, force=arguments.force)
    show_documents(
        arguments,
        {"kind": "spu", "name": arguments.id},
        lambda: f"unregistered SPU {arguments.id}",
    )


def _reached_at(spu: Spu) -> str | None:
    """The address that clients are given. A managed SPU reports where it has found a free port."""
    told = [f"{each.host}:{each.port}" for each in spu.status.listeners[:1]]
    if not spu.spec.public.ingress or spu.spec.type is SpuType.MANAGED:
        return told[0] if told else None
    if spu.spec.public.port == 0:
        return (told or [public_of(spu)])[0]
    return public_of(spu)


def _reached_privately_at(spu: Spu) -> str | None:
    """The address that other SPUs are given. A registered address overrides the one that the SPU reports."""
    reported, registered = spu.status.private, spu.spec.private
    if spu.spec.type is SpuType.MANAGED:
        return str(reported) if reported else None
    if registered.port == 0 or (registered == PrivateEndpoint() and reported is not None):
        return str(reported or private_of(spu))
    return private_of(spu)


def public_of(spu: Spu) -> str:
    """The public address in the spec; `HOST` stands for a host that the spec leaves to the SPU."""
    return f"{(spu.spec.public.ingress or ('HOST',))[0]}:{spu.spec.public.port}"


def private_of(spu: Spu) -> str:
    """Returns the private address in the spec."""
    return f"{spu.spec.private.host}:{spu.spec.private.port}"


def _spus(found: list[Object]) -> list[Spu]:
    return cast(list[Spu], found)


COMMANDS = {
    "register": Command("spu register", _register_options, _register),
    "list": broker_command("spu list", no_options, _list, list_brokers, is_watchable=True),
    "describe": Command("spu describe", _describe_options, _describe, is_watchable=True),
    "unregister": Command("spu unregister", _unregister_options, _unregister),
}
