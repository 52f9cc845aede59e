"""`tailrace group explain`: explains what a group is doing, why it has rebalanced, and what would help."""

import argparse

from tailrace.cli.options.sc_options import show_documents
from tailrace.cli.output.printing import plain, time_text
from tailrace.cli.output.tables import fields, table
from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Group, total_lag
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import Document
from tailrace.client.server_connection import RefusedError, unless_refused
from tailrace.protocol.internal.explain_group import ExplainedRebalance, ExplainGroupResponse, RebalanceParticipant
from tailrace.runtime.wall_clock import WallClock

from .group_advice import Wait, advice, name_of, waits
from .group_explanation import explanation
from .group_options import GroupAsk

DEPARTURES_NAMED_MAX = 3


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("group", metavar="GROUP", help="Group to explain.")


def explaining(wall_clock: WallClock) -> GroupAsk:
    """Makes the function that asks about a group and prints the explanation."""

    async def explain(client: GroupClient, arguments: argparse.Namespace) -> None:
        group_id: str = arguments.group
        group = unless_refused((await client.describe([group_id]))[group_id])
        told = unless_refused(await client.explain(group_id))
        progress = (await client.progress([group]))[group_id]
        now = explanation(group, told, progress, await _subscribed(client, group), wall_clock.now_ms())
        show_documents(
            arguments,
            explanation_document(group, told, now),
            lambda: explanation_text(group, told, total_lag(progress), now),
        )

    return explain


async def _subscribed(client: GroupClient, group: Group) -> dict[str, list[Partition] | None]:
    topics = sorted({topic for member in group.members for topic in member.topics})
    found = await client.logs.partitions(topics)
    return {topic: None if isinstance(each, RefusedError) else each for topic, each in found.items()}


def explanation_text(group: Group, told: ExplainGroupResponse, lag: int | None, now: list[str]) -> str:
    """Formats an explanation for people."""
    about = fields(
        [
            ("Group", group.id),
            ("Type", group.type),
            ("State", group.state),
            ("Assignor", group.assignor),
            ("Epoch", group.epoch),
            ("Members", len(group.members)),
            ("Lag", lag),
        ]
    )
    parts = [about, "\n".join(map(plain, now))]
    if told.rebalances:
        parts.append(_rebalance_table(told))
    if helpful := advice(group, told):
        parts.append("\n".join(["What would help:", *(f"- {plain(each)}" for each in helpful)]))
    return "\n\n".join(parts)


def _rebalance_table(told: ExplainGroupResponse) -> str:
    """Formats the rebalances, the newest first."""
    rows = [
        (
            time_text(each.began_ms),
            _seconds(each.ended_ms - each.began_ms) if each.ended_ms >= 0 else None,
            each.generation if each.generation >= 0 else None,
            each.cause,
            wait.names if wait is not None else None,
            _seconds(wait.duration_ms) if wait is not None else None,
            _departures_text(each),
        )
        for each, wait in zip(told.rebalances, waits(told), strict=True)
    ]
    return table(("BEGAN", "TOOK", "GENERATION", "BECAUSE", "WAITED FOR", "FOR", "GONE"), reversed(rows))


def _departures_text(rebalance: ExplainedRebalance) -> str:
    texts = [f"{name_of(each.participant)} {each.why}" for each in rebalance.departures]
    more = rebalance.departure_count - DEPARTURES_NAMED_MAX
    return "; ".join(texts[:DEPARTURES_NAMED_MAX]) + (f"; {more} more" if more > 0 else "")


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s"


def explanation_document(group: Group, told: ExplainGroupResponse, now: list[str]) -> Document:
    """Makes a document of an explanation."""
    return {
        "group": group.id,
        "type": group.type,
        "state": group.state,
        "coordinator": {
            "spuId": group.coordinator,
            "partition": told.partition,
            "epoch": told.epoch,
            "since": time_text(told.loaded_ms),
        },
        "now": now,
        "transactions": [
            {
                "producerId": each.producer_id,
                "partitionCount": each.partition_count,
                "since": _time(each.since_ms),
            }
            for each in told.transactions
        ],
        "advice": advice(group, told),
        "rebalances": [
            _rebalance_document(each, wait) for each, wait in zip(told.rebalances, waits(told), strict=True)
        ][::-1],
    }


def _rebalance_document(rebalance: ExplainedRebalance, wait: Wait | None) -> Document:
    return {
        "cause": rebalance.cause,
        "began": time_text(rebalance.began_ms),
        "joined": _time(rebalance.joined_ms),
        "ended": _time(rebalance.ended_ms),
        "generation": None if rebalance.generation < 0 else rebalance.generation,
        "waitedFor": [] if wait is None else [_participant_document(each) for each in wait.participants],
        "waitedForCount": 0 if wait is None else wait.count,
        "waitedMs": None if wait is None else wait.duration_ms,
        "arrivalCount": rebalance.arrival_count,
        "arrivals": [
            _participant_document(each.participant) | {"afterMs": each.after_ms} for each in rebalance.arrivals
        ],
        "departureCount": rebalance.departure_count,
        "departures": [
            _participant_document(each.participant) | {"afterMs": each.after_ms, "why": each.why}
            for each in rebalance.departures
        ],
    }


def _participant_document(participant: RebalanceParticipant) -> Document:
    return {
        "memberId": participant.member_id,
        "instanceId": participant.instance_id,
        "clientId": participant.client_id,
        "host": participant.host,
    }


def _time(moment_ms: int) -> str | None:
    return None if moment_ms < 0 else time_text(moment_ms)
