"""`tailrace doctor`: checks addresses, clocks, disks, limits, versions, and how many records a power failure can take.

Exit status: 0 if there is no problem (warnings are allowed), 1 if there is one, 3 if no server responds.
"""

import argparse
from collections.abc import Callable

from tailrace import __version__
from tailrace.cli.options.sc_options import DONE, REFUSED, Command, show_documents
from tailrace.cli.output.printing import counted
from tailrace.cli.output.tables import table
from tailrace.client.sc_client import ScClient
from tailrace.client.secure_network import SecureNetwork
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tailrace.runtime.network import outgoing_host
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .access_checks import access_findings, access_of, listening_addresses
from .cluster_facts import ClusterFacts
from .doctor_checks import (
    address_findings,
    certificate_findings,
    clock_findings,
    disk_findings,
    limit_findings,
    link_findings,
    outside_addresses,
    outside_findings,
    version_findings,
)
from .findings import Finding, Level, finding_document, finding_text, worst_of
from .loss_window import CONFIGS, LossWindow, loss_finding, loss_rows, loss_window
from .server_visits import SC_ID, Target, Visit, targets_told, visit_all
from .status_command import Sighting, bootstrap_option, look

TOPIC_RESOURCE = 2


def doctor_command(wall_clock: WallClock, host_outside: Callable[[], str | None] = outgoing_host) -> Command:
    """Makes the command. `host_outside` returns the address of this machine that other hosts see."""

    async def ask(client: ScClient, arguments: argparse.Namespace) -> int:
        return await _doctor(client, arguments, wall_clock, host_outside())

    return Command("doctor", bootstrap_option, ask, takes_both=True)


async def _doctor(
    client: ScClient, arguments: argparse.Namespace, wall_clock: WallClock, host_outside: str | None
) -> int:
    sighting = await look(client, arguments)
    visits = await _visits(client, sighting, wall_clock)
    others = [] if host_outside is None else outside_addresses(visits, host_outside)
    outside = await visit_all(client.network, (Target(*each) for each in others), wall_clock)
    windows = await _loss_windows(client, sighting.facts) if sighting.is_from_sc else None
    findings = [
        _cluster_finding(sighting),
        *address_findings(visits, _cluster_id(visits)),
        *outside_findings(visits, [each for each in outside if not each.fault]),
        *link_findings(visits, [each.id for each in sighting.facts.spus if each.is_online]),
        *clock_findings(visits),
        *disk_findings(visits),
        *limit_findings(visits),
        *certificate_findings(visits),
        *version_findings(visits, __version__),
        *access_findings(
            await access_of(client) if sighting.is_from_sc else None,
            listening_addresses(visits),
            logs_in=isinstance(client.network, SecureNetwork) and client.network.proves_identity,
        ),
        *(
            [loss_finding(windows)]
            if windows is not None
            else [Finding(Level.WARNING, "loss window", "The configs of topics are unknown without the SC.")]
        ),
    ]
    show_documents(arguments, _document(findings, windows or []), lambda: _text(findings, windows or []))
    return REFUSED if worst_of(findings) is Level.PROBLEM else DONE


async def _visits(client: ScClient, sighting: Sighting, wall_clock: WallClock) -> list[Visit]:
    """Visits the SC, each SPU at each address, and the other addresses that their clients are told."""
    sc = [Target(SC_ID, client.address)] if sighting.is_from_sc else []
    spus = [Target(each.id, address) for each in sighting.facts.spus if each.is_online for address in each.addresses]
    visits = await visit_all(client.network, [*sc, *spus], wall_clock)
    seen = {visit.target for visit in visits}
    further = [target for target in targets_told(visits) if target not in seen]
    return visits + await visit_all(client.network, further, wall_clock)


def _cluster_id(visits: list[Visit]) -> str:
    return next((each.description.cluster_id for each in visits if each.description is not None), "")


async def _loss_windows(client: ScClient, facts: ClusterFacts) -> list[LossWindow] | None:
    """Returns the loss windows of all topics with replicas; None if the SC does not tell the configs."""
    factors: dict[str, int] = {}
    for each in facts.partitions:
        factors[each.topic] = min(factors.get(each.topic, len(each.replicas)), len(each.replicas))
    resources = [DescribeConfigsResource(TOPIC_RESOURCE, topic, list(CONFIGS)) for topic in sorted(factors)]
    try:
        response = await client.ask(DescribeConfigsRequest(resources))
    except (UnreachableError, RefusedError):
        return None
    configs = {
        each.resource_name: {config.name: config.value or "" for config in each.configs} for each in response.results
    }
    return [loss_window(topic, factors[topic], configs.get(topic, {})) for topic in sorted(factors)]


def _cluster_finding(sighting: Sighting) -> Finding:
    count = len(sighting.faults)
    if not count:
        return Finding(Level.OK, "cluster", f"All is well according to {sighting.source}.")
    return Finding(
        worst_of(sighting.faults),
        "cluster",
        f"{counted(count, 'thing is', 'things are')} wrong, first: {sighting.faults[0].text}",
        "See all of them with `tailrace status`.",
    )


def _text(findings: list[Finding], windows: list[LossWindow]) -> str:
    lines = [finding_text(each) for each in findings]
    if windows:
        rows = loss_rows(windows)
        lines += ["", table(("TOPICS", "COPIES", "ONLY IN MEMORY FOR UP TO"), rows)]
    return "\n".join(lines)


def _document(findings: list[Finding], windows: list[LossWindow]) -> dict[str, object]:
    return {
        "level": worst_of(findings).value,
        "findings": [finding_document(each) for each in findings],
        "lossWindows": [{"topic": each.topic, "copies": each.copies, "windowMs": each.window_ms} for each in windows],
    }


COMMANDS = {"doctor": doctor_command(SystemClock())}
