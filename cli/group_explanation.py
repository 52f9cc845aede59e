"""Why a group does what it does, in sentences: what it is doing now, what its last rebalances were, what would help.

It says what the coordinator has seen and what follows from that; the words LATE and SILENT, by which the coordinator
tells what was wrong with a member, decide what is advised.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tailrace.broker.groups.rebalances import LATE, SILENT
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.protocol.internal.explain_group import ExplainedRebalance, ExplainGroupResponse, RebalanceParticipant

from .group_answers import CLASSIC, CONSUMER
from .group_facts import Group, Partition, Progress, total_lag, whereabouts
from .group_tables import partitions_text
from .printing import duration_text

NAMED_MAX = 5
LATE_MS = 5_000
"""Up to three seconds are nobody's fault: consumers hear of a rebalance with a heartbeat, which they send so often."""
COMINGS_AND_GOINGS = 3
"""Of the last rebalances: as many as this are worth an advice."""
EAGER = frozenset({"range", "roundrobin", "sticky"})
"""Assignors of clients that give up everything in each rebalance."""


Topics = Mapping[str, Sequence[Partition] | None]


@dataclass(frozen=True, slots=True)
class Explanation:
    now: list[str]
    rebalances: list[ExplainedRebalance]
    """The newest first."""
    advice: list[str]


def explanation(
    group: Group, told: ExplainGroupResponse, progress: Sequence[Progress], topics: Topics, now_ms: int
) -> Explanation:
    """`topics` are those that members subscribe to by name, None where there is none; `now_ms` is our own clock."""
    now = [*_doing(group, told), *_owning(group, topics), *_lagging(progress, now_ms), _coordinator(group, told)]
    return Explanation(now, told.rebalances[::-1], _advice(group, told))


# now


def _doing(group: Group, told: ExplainGroupResponse) -> list[str]:
    last = told.rebalances[-1] if told.rebalances else None
    match group.state:
        case "Empty":
            return [f"Nobody is in it{_because(last)}."]
        case "PreparingRebalance":
            return _waiting_for_joins(told, last)
        case "CompletingRebalance":
            since = "" if last is None else f", for {_ago(last.joined_ms, told)}"
            return [f"All have joined, and the member that leads makes the assignment{since}."]
        case "Assigning":
            return [f"Its assignment for epoch {group.epoch} is being made{_because(last)}."]
        case "Reconciling":
            return _reconciling(group, last, told)
    if last is None or last.ended_ms < 0:
        return ["It is stable: its members work on what they own."]
    return [f"It is stable, for {_ago(last.ended_ms, told)}: its members work on what they own."]


def _waiting_for_joins(told: ExplainGroupResponse, last: ExplainedRebalance | None) -> list[str]:
    if last is None:
        return ["It rebalances: it waits for its members to join again."]
    began = f"It rebalances, for {_ago(last.began_ms, told)}{_because(last)}."
    if not last.expected:
        return [began, "It waits a little for more members to come (group.initial.rebalance.delay.ms)."]
    limit_ms = max((each.rebalance_timeout_ms for each in told.members), default=0)
    left_ms = max(last.began_ms + limit_ms - told.now_ms, 0)
    return [
        began,
        f"It waits for {_named(last.expected)} to join again, for {duration_text(left_ms / 1000)} more at most "
        f"(max.poll.interval.ms: {_seconds(limit_ms)}).",
    ]


def _reconciling(group: Group, last: ExplainedRebalance | None, told: ExplainGroupResponse) -> list[str]:
    since = "" if last is None else f", for {_ago(last.began_ms, told)}"
    lines = [f"Its members take over what epoch {group.epoch} gives them{since}{_because(last)}."]
    owners = group.owners()
    for member in group.members:
        if member.target is None:
            continue
        surplus, missing = member.owned - member.target, member.target - member.owned
        if surplus:
            lines.append(f"{member.whereabouts} has to give up {partitions_text(surplus)}.")
        elif missing:
            holders = {owners[each].name for each in missing if each in owners}
            waits = f", until {', '.join(sorted(holders))} has given it up" if holders else ""
            lines.append(f"{member.whereabouts} waits for {partitions_text(missing)}{waits}.")
    return [
        *lines[: NAMED_MAX + 1],
        *([f"And {len(lines) - NAMED_MAX - 1} more."] if len(lines) > NAMED_MAX + 1 else []),
    ]


def _owning(group: Group, topics: Topics) -> list[str]:
    lines = [
        f"Members are subscribed to {topic}, which does not exist."
        for topic, partitions in topics.items()
        if partitions is None
    ]
    if group.state != "Stable" or group.protocol != "consumer":
        return lines
    owned = group.owners()
    unowned = [each for partitions in topics.values() for each in partitions or () if each not in owned]
    if unowned:
        lines.append(f"Nobody owns {partitions_text(unowned)}, though members are subscribed to it.")
    idle = [each.whereabouts for each in group.members if not each.owned]
    if idle and owned:
        lines.append(f"{_some(idle)} {'owns' if len(idle) == 1 else 'own'} nothing: all partitions have other owners.")
    return lines


def _lagging(progress: Sequence[Progress], now_ms: int) -> list[str]:
    total = total_lag(progress)
    if total is None:
        return []
    if total == 0:
        return ["It has read everything."]
    worst = max(progress, key=lambda each: each.lag or 0)
    seconds = [age for each in progress if (age := each.lag_seconds(now_ms)) is not None]
    oldest = f", the oldest for {duration_text(max(seconds))}" if seconds else ""
    owner = f", which {worst.owner.whereabouts} owns" if worst.owner else ""
    return [f"{total} records are unread{oldest}; most of them, {worst.lag}, in {worst.partition}{owner}."]


def _coordinator(group: Group, told: ExplainGroupResponse) -> str:
    return (
        f"SPU {group.coordinator} coordinates it, for {_ago(told.loaded_ms, told)} (partition {told.partition} of "
        f"{GROUPS_TOPIC}, epoch {told.epoch}); of rebalances before that it knows nothing."
    )


# what would help


def _advice(group: Group, told: ExplainGroupResponse) -> list[str]:
    rebalances = told.rebalances
    lines = []
    too_late = _departed(rebalances, lambda why: why.startswith(LATE))
    if too_late:
        lines.append(
            f"Removed, because max.poll.interval.ms{_limit(told)} passed between two polls: {_some(too_late)}. Do less "
            "between polls (max.poll.records), or raise max.poll.interval.ms."
        )
    slow = _late_ones(rebalances)
    if slow:
        lines.append(
            f"All others stood still and waited for {_some(slow)}. Who comes late polls too rarely: do "
            "less between polls (max.poll.records)."
        )
    if any(SILENT in each.cause for each in rebalances) or _departed(rebalances, lambda why: why.startswith(SILENT)):
        lines.append(
            "Members that were not heard of have died or stood still: see their logs, and what else their machine "
            "does. If such pauses are normal there, raise session.timeout.ms (for KIP-848 groups "
            "group.consumer.session.timeout.ms)."
        )
    moving = [each for each in rebalances if _is_coming_or_going(each)]
    if len(moving) >= COMINGS_AND_GOINGS and any(each.instance_id is None for each in group.members):
        lines.append(
            f"{len(moving)} of the last {len(rebalances)} rebalances began because a member came or left: with a "
            "group.instance.id a restart within session.timeout.ms begins none."
        )
    if group.type == CLASSIC and group.assignor in EAGER and len(rebalances) >= COMINGS_AND_GOINGS:
        lines.append(
            f"With the assignor {group.assignor} all members give up everything in each rebalance: with "
            f"cooperative-sticky, or group.protocol={CONSUMER}, they give up only what moves."
        )
    return lines


def late_ms(rebalance: ExplainedRebalance) -> int | None:
    """For how long all others waited for the last one alone; None when fewer than two came."""
    if len(rebalance.arrivals) < 2:
        return None
    return rebalance.arrivals[-1].after_ms - rebalance.arrivals[-2].after_ms


def took_ms(rebalance: ExplainedRebalance) -> int | None:
    """None while it goes on, and when it was never finished."""
    return None if rebalance.ended_ms < 0 else rebalance.ended_ms - rebalance.began_ms


def who(participant: RebalanceParticipant) -> str:
    return whereabouts(name_of(participant), participant.client_id, participant.host)


def name_of(participant: RebalanceParticipant) -> str:
    return participant.instance_id or participant.member_id


def _late_ones(rebalances: Iterable[ExplainedRebalance]) -> list[str]:
    """With by how much, and how often."""
    times: dict[str, list[int]] = {}
    for each in rebalances:
        late = late_ms(each)
        if late is not None and late >= LATE_MS:
            times.setdefault(who(each.arrivals[-1].participant), []).append(late)
    return [
        f"{name} {f'{len(found)} times, for up to' if len(found) > 1 else 'for'} {max(found) / 1000:.1f} s"
        for name, found in times.items()
    ]


def _departed(rebalances: Iterable[ExplainedRebalance], was: Callable[[str], bool]) -> list[str]:
    return list(
        dict.fromkeys(
            who(departure.participant) for each in rebalances for departure in each.departures if was(departure.why)
        )
    )


def _is_coming_or_going(rebalance: ExplainedRebalance) -> bool:
    return rebalance.cause.partition(", saying")[0].endswith((" joined", " left"))


def _limit(told: ExplainGroupResponse) -> str:
    limit_ms = max((each.rebalance_timeout_ms for each in told.members), default=-1)
    return "" if limit_ms < 0 else f" ({_seconds(limit_ms)})"


# words


def _because(rebalance: ExplainedRebalance | None) -> str:
    return "" if rebalance is None else f", because {rebalance.cause}"


def _ago(moment_ms: int, told: ExplainGroupResponse) -> str:
    return duration_text(max(told.now_ms - moment_ms, 0) / 1000)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"


def _named(participants: Sequence[RebalanceParticipant]) -> str:
    return _some([who(each) for each in participants])


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
