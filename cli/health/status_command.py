"""`tailrace status`: shows on one screen what runs, what is wrong, and what to do next.

It asks the SC, which knows everything. If the SC is away, it asks SPUs, and says so. If only brokers are named, it asks
no SC, because the one at the default address could belong to another cluster. Exit status: 0 nothing is wrong, 1
something is wrong, 3 no server responds.
"""

import argparse
import os
from collections.abc import Sequence

import trio
from msgspec import Struct

from tailrace.cli.options.sc_options import DONE, REFUSED, Command, objects_in, show_documents
from tailrace.cli.output.printing import counted
from tailrace.cli.output.tables import fields
from tailrace.cli.output.terminal import toned_text
from tailrace.cli.output.tones import Tone
from tailrace.client.sc_client import SC, Document, ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.controller.objects.objects import Object
from tailrace.runtime.network import Address, Network
from tailrace.runtime.settings import parse_address
from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE, SC_VARIABLE

from .cluster_facts import ClusterFacts, facts_of_metadata, facts_of_objects
from .cluster_summary import faults_of, overview
from .findings import Finding, Level, capitalized, finding_document, finding_text

BOOTSTRAP_DEFAULT = "127.0.0.1:9092,127.0.0.1:9005"
KINDS = ("spu", "spu-group", "topic", "partition")
SC_SECONDS_MAX = 10.0
"""How long the SC may take to respond."""
SPU_SECONDS_MAX = 5.0
"""How long SPUs may take to respond while the SC is away."""


class Sighting(Struct, frozen=True):
    """A cluster as one look has found it."""

    source: str
    """The server that described the cluster."""
    facts: ClusterFacts
    faults: list[Finding]
    is_from_sc: bool = True


def bootstrap_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--bootstrap`: the SPUs to ask if the SC is away."""
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT[,HOST:PORT]",
        help="SPUs to ask if the SC does not respond, or instead of it if --sc is not given "
        f"(default: ${BOOTSTRAP_VARIABLE}, or {BOOTSTRAP_DEFAULT}).",
    )


async def _status(client: ScClient, arguments: argparse.Namespace) -> int:
    sighting = await look(client, arguments)
    show_documents(arguments, document_of(sighting), lambda: text_of(sighting))
    return REFUSED if sighting.faults else DONE


async def look(client: ScClient, arguments: argparse.Namespace) -> Sighting:
    """Looks at the cluster through the SC, or else through SPUs. Raises UnreachableError if no server responds."""
    given, origin = arguments.bootstrap, "--bootstrap"
    if given is None:
        given, origin = os.environ.get(BOOTSTRAP_VARIABLE) or None, BOOTSTRAP_VARIABLE
    addresses = (given or BOOTSTRAP_DEFAULT).split(",")
    bootstrap = [parse_address(each.strip(), origin, port_min=1) for each in addresses]
    if given is not None and arguments.sc is None and not os.environ.get(SC_VARIABLE):
        facts = await _facts_of_spus(client.network, bootstrap)
        return Sighting(f"the brokers at {_listed(bootstrap)}", facts, faults_of(facts), is_from_sc=False)
    return await _look_at_sc(client, bootstrap)


async def _look_at_sc(client: ScClient, bootstrap: Sequence[Address]) -> Sighting:
    try:
        objects, triggers = await _objects(client)
    except UnreachableError as away:
        return await _look_without_sc(client, bootstrap, away)
    facts = facts_of_objects(objects, triggers)
    return Sighting(f"the SC at {client.address}", facts, faults_of(facts))


async def _objects(client: ScClient) -> tuple[list[Object], list[Document]]:
    """Returns the objects of the SC, and the documents of deployed triggers with what their replicas report."""
    with trio.move_on_after(SC_SECONDS_MAX):
        found = [each for kind in KINDS for each in objects_in(kind, await client.list_objects(kind))]
        return found, await _triggers(client)
    raise SC.is_silent(client.address, f"no response within {SC_SECONDS_MAX:g} seconds")


async def _triggers(client: ScClient) -> list[Document]:
    try:
        return await client.list_objects("trigger")
    except RefusedError:  # An SC of an older version knows no triggers.
        return []


async def _look_without_sc(client: ScClient, bootstrap: Sequence[Address], away: UnreachableError) -> Sighting:
    try:
        facts = await _facts_of_spus(client.network, bootstrap)
    except UnreachableError:
        raise UnreachableError(f"{away}. No SPU answers at {_listed(bootstrap)} either: see --bootstrap") from away
    sc = Finding(
        Level.PROBLEM,
        "SC",
        f"{capitalized(str(away).partition('. ')[0])}; SPUs serve producers and "
        "consumers meanwhile, but no leader is elected and nothing can be changed.",
        "Start the SC with `tailrace serve sc` or `tailrace up`, or name its public address with --sc or TAILRACE_SC.",
    )
    return Sighting(f"SPUs at {_listed(bootstrap)}", facts, [sc, *faults_of(facts)], is_from_sc=False)


async def _facts_of_spus(network: Network, bootstrap: Sequence[Address]) -> ClusterFacts:
    spus = SpuClient(network, bootstrap, BOOTSTRAP)
    try:
        with trio.move_on_after(SPU_SECONDS_MAX):
            return facts_of_metadata(await spus.metadata_of_all())
    finally:
        spus.close()
    raise UnreachableError(f"no broker at {_listed(bootstrap)} responds within {SPU_SECONDS_MAX:g} seconds")


def _listed(addresses: Sequence[Address]) -> str:
    return ", ".join(map(str, addresses))


def text_of(sighting: Sighting) -> str:
    """Formats the status for people: a verdict, what there is, and what is wrong with the next step of each."""
    count = len(sighting.faults)
    verdict = (
        toned_text("All is well.", Tone.GOOD)
        if not count
        else toned_text(f"{counted(count, 'thing is', 'things are')} wrong.", Tone.BAD)
    )
    lines = [verdict, "", fields([("Asked", sighting.source), *overview(sighting.facts)])]
    if count:
        lines += ["", *(finding_text(each) for each in sighting.faults)]
    return "\n".join(lines)


def document_of(sighting: Sighting) -> dict[str, object]:
    """Returns the status as a document for programs."""
    facts = sighting.facts
    internal = sum(each.is_internal for each in facts.topics)
    return {
        "well": not sighting.faults,
        "asked": sighting.source,
        "spus": [
            {"id": each.id, "status": each.state}
            | ({"addresses": list(map(str, each.addresses))} if each.addresses else {})
            for each in facts.spus
        ],
        "topics": len(facts.topics) - internal,
        "internalTopics": internal,
        "partitions": len(facts.partitions),
        "partitionsWithLeader": sum(each.leader is not None for each in facts.partitions),
        "triggers": [
            {"name": each.name, "status": each.state, "replicas": each.replicas, "ready": each.ready}
            for each in facts.triggers
        ],
        "findings": [finding_document(each) for each in sighting.faults],
    }


COMMANDS = {
    "status": Command("status", bootstrap_option, _status, is_watchable=True, watches_failures=True, takes_both=True)
}
