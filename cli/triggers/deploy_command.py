"""`tailrace trigger deploy FILE`: stores a function in the SC, which keeps its replicas running."""

import argparse
import sys
from contextlib import closing

import trio

from tailrace.cli.options.sc_options import (
    Command,
    NotInEffectError,
    UsageError,
    checked_document,
    say,
    show_documents,
    wait_seconds,
)
from tailrace.cli.output.printing import counted
from tailrace.client.sc_client import Document, ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.cluster.stream_state.stream_state import StreamRead
from tailrace.controller.objects.objects import Trigger, TriggerResolution, replica_name
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.settings import SettingsError, parse_address
from tailrace.trigger.functions.deployed_function import KIND, deployed_document
from tailrace.trigger.functions.function_source import FunctionLoadError

from .trigger_facts import TriggerFacts, trigger_facts, trigger_of, without_secrets
from .trigger_options import GivenTrigger, add_function, add_settings, given_trigger

NAME = "trigger deploy"
LOOK_SECONDS = 0.2
NOTHING_READ = StreamRead(0)


def _options(parser: argparse.ArgumentParser) -> None:
    add_function(parser)
    parser.add_argument(
        "--python",
        metavar="PATH",
        default=sys.executable,
        help="Python interpreter for the replicas, in which Tailrace is installed (default: the one of this command).",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="Where the first replica serves its metrics; each of the others has the next port (default: nowhere).",
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=wait_seconds,
        default=0.0,
        help="Wait until all replicas run the function, at most this long.",
    )
    add_settings(parser, without=("brokers",))


async def _deploy(client: ScClient, arguments: argparse.Namespace) -> None:
    given = given_trigger(arguments)
    for warning in given.warnings:
        say(NAME, warning)
    document = _document(given, arguments.python, arguments.metrics)
    await _check_cluster(client, given)
    before = await _existing(client, given.config.name)
    if before is None:
        stored, outcome = await client.create(KIND, document), "created"
    else:
        spec = {**document["spec"], "paused": before.spec.paused, "revision": before.spec.revision}
        stored = await client.update(KIND, {**document, "spec": spec})
        is_new = trigger_of(stored).spec.revision > before.spec.revision
        outcome = "changed" if is_new else "unchanged" if trigger_of(stored).spec == before.spec else "scaled"
    trigger = trigger_of(stored)
    if arguments.wait:
        await _wait(client, trigger, arguments.wait)
    show_documents(arguments, without_secrets(stored), lambda: _text(trigger, outcome))


def _document(given: GivenTrigger, python: str, metrics: str | None) -> Document:
    try:
        document = deployed_document(given.config, given.source, python, metrics)
    except FunctionLoadError as error:
        raise UsageError(str(error)) from error
    return checked_document(KIND, document)


async def _existing(client: ScClient, name: str) -> Trigger | None:
    try:
        (document,) = await client.list_objects(KIND, [name])
    except RefusedError as error:
        if error.code != ErrorCode.RESOURCE_NOT_FOUND:
            raise
        return None
    return trigger_of(document)


async def _check_cluster(client: ScClient, given: GivenTrigger) -> None:
    """Refuses a function that names brokers of another cluster: replicas get their shards from the SC of this one."""
    if not given.config.brokers:
        return
    try:
        addresses = [parse_address(each, "the brokers of the trigger") for each in given.config.brokers]
    except SettingsError as error:
        raise UsageError(str(error)) from error
    with closing(SpuClient(client.network, addresses, BOOTSTRAP)) as spus:
        there = await spus.metadata()
    here = await client.ask(MetadataRequest([]))
    if there.cluster_id != here.cluster_id:
        raise RefusedError(
            f"the trigger names {', '.join(given.config.brokers)}, which belongs to another cluster than the SC at "
            f"{client.address}. Leave the brokers out, or run the function by hand: tailrace trigger run"
        )


async def _wait(client: ScClient, trigger: Trigger, seconds: float) -> None:
    """Waits until all replicas handle records in the revision. Raises NotInEffectError."""
    with trio.move_on_after(seconds):
        while True:
            (document,) = await client.list_objects(KIND, [trigger.name])
            if is_running(trigger_facts(document, NOTHING_READ, []), trigger.spec.revision):
                return
            await trio.sleep(LOOK_SECONDS)
    (document,) = await client.list_objects(KIND, [trigger.name])
    raise NotInEffectError(_missing(trigger_facts(document, NOTHING_READ, []), trigger.spec.revision))


def is_running(facts: TriggerFacts, revision: int) -> bool:
    """Tells whether all replicas that should run report that they do, in this revision or a later one."""
    revisions = facts.trigger.status.revisions
    if facts.trigger.status.resolution is not TriggerResolution.RUNNING or min(revisions, default=0) < revision:
        return False
    return all(_is_up(facts, replica_name(index), revision) for index in range(len(revisions)))


def _is_up(facts: TriggerFacts, replica: str, revision: int) -> bool:
    report = facts.report(replica)
    return report is not None and report.revision >= revision and report.state.is_up


def _missing(facts: TriggerFacts, revision: int) -> list[str]:
    status = facts.trigger.status
    if not status.revisions:
        return [
            f"trigger {facts.trigger.name} has no replicas: its status is {status.resolution.value} {status.reason}"
        ]
    names = [replica_name(index) for index in range(len(status.revisions))]
    late = [name for name in names if not _is_up(facts, name, revision)]
    return [_late(facts, name, revision) for name in late] or [
        f"trigger {facts.trigger.name} is {status.resolution.value}"
    ]


def _late(facts: TriggerFacts, name: str, revision: int) -> str:
    found, report = facts.replica(name), facts.report(name)
    if report is not None and report.revision < revision and report.state.is_up:
        return f"{name} of trigger {facts.trigger.name} still runs revision {report.revision}"
    process = f"; its process: {found.process}" if found is not None and found.process else ""
    return f"{name} of trigger {facts.trigger.name} does not handle records yet{process}"


def _text(trigger: Trigger, outcome: str) -> str:
    name, spec, status = trigger.name, trigger.spec, trigger.status
    if outcome == "unchanged":
        return f"trigger {name} is unchanged"
    replicas = counted(spec.replicas, "replica")
    if spec.min_replicas is not None:
        replicas = f"{spec.min_replicas} to {replicas}"
    done = f"{outcome} trigger {name}: revision {spec.revision}, {replicas}"
    if status.resolution is TriggerResolution.WAITING:
        return f"{done}; it waits: {status.reason}"
    if spec.paused:
        return f"{done}; it is paused"
    return f"{done}; `tailrace trigger describe {name}` shows what they do"


COMMANDS = {"deploy": Command(NAME, _options, _deploy)}
