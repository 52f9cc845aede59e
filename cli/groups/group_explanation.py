"""Explains in sentences what a group is doing: which members it waits for, and what is unowned or unread."""

from collections.abc import Mapping, Sequence

from tailrace.cli.output.printing import duration_text
from tailrace.client.group_facts import Group, Progress, total_lag
from tailrace.client.log_facts import Partition
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.protocol.internal.explain_group import ExplainedRebalance, ExplainGroupResponse

from .group_advice import NAMED_MAX, some, who
from .group_tables import partitions_text

Topics = Mapping[str, Sequence[Partition] | None]


def explanation(
    group: Group, told: ExplainGroupResponse, progress: Sequence[Progress], topics: Topics, now_ms: int
) -> list[str]:
    """Explains the current state of a group.

    `topics` are the topics to which members subscribe by name, with None for a topic that does not exist. `now_ms` is
    the time on this machine.
    """
    return [
        *_doing(group, told),
        *_owning(group, topics),
        *_lagging(progress, now_ms),
        *_committing(told),
        _coordinator(group, told),
    ]


def _doing(group: Group, told: ExplainGroupResponse) -> list[str]:
    last = told.rebalances[-1] if told.rebalances else None
    match group.state:
        case "Empty":
            return [f"The group has no members{_because(last)}."]
        case "PreparingRebalance":
            return _waiting_for_joins(told, last)
        case "CompletingRebalance":
            since = "" if last is None else f" for {_ago(last.joined_ms, told)}"
            return [f"All members have joined, and the leading member has been computing the assignment{since}."]
        case "Assigning":
            return [f"The coordinator computes the assignment for epoch {group.epoch}{_because(last)}."]
        case "Reconciling":
            return _reconciling(group, last, told)
    if last is None or last.ended_ms < 0:
        return ["The group is stable: its members read the partitions that they own."]
    return [
        f"The group has been stable for {_ago(last.ended_ms, told)}: its members read the partitions that they own."
    ]


def _waiting_for_joins(told: ExplainGroupResponse, last: ExplainedRebalance | None) -> list[str]:
    if last is None:
        return ["The group is rebalancing: it waits for its members to join again."]
    began = f"The group has been rebalancing for {_ago(last.began_ms, told)}{_because(last)}."
    if not last.expected:
        return [began, "It waits a moment for more members to join (group.initial.rebalance.delay.ms)."]
    limit_ms = max(told.rebalance_timeout_ms, 0)
    left_ms = max(last.began_ms + limit_ms - told.now_ms, 0)
    awaited, left = some([who(each) for each in last.expected], last.expected_count), duration_text(left_ms / 1000)
    limit = f"max.poll.interval.ms: {limit_ms / 1000:g} s"
    return [began, f"It waits for {awaited} to join again, for at most {left} more ({limit})."]


def _reconciling(group: Group, last: ExplainedRebalance | None, told: ExplainGroupResponse) -> list[str]:
    since = "" if last is None else f" for {_ago(last.began_ms, told)}"
    lines = [f"The members have been taking over the assignment of epoch {group.epoch}{since}{_because(last)}."]
    owners = group.owners()
    for member in group.members:
        if member.target is None:
            continue
        surplus, missing = member.owned - member.target, member.target - member.owned
        if surplus:
            lines.append(f"{member.whereabouts} must give up {partitions_text(surplus)}.")
        elif missing:
            holders = {owners[each].name for each in missing if each in owners}
            waits = f", which {', '.join(sorted(holders))} must give up first" if holders else ""
            lines.append(f"{member.whereabouts} waits for {partitions_text(missing)}{waits}.")
    return [
        *lines[: NAMED_MAX + 1],
        *([f"And {len(lines) - NAMED_MAX - 1} more."] if len(lines) > NAMED_MAX + 1 else []),
    ]


def _owning(group: Group, topics: Topics) -> list[str]:
    lines = [
        f"Members subscribe to {topic}, which does not exist."
        for topic, partitions in topics.items()
        if partitions is None
    ]
    if group.state != "Stable" or group.protocol != "consumer":
        return lines
    owned = group.owners()
    unowned = [each for partitions in topics.values() for each in partitions or () if each not in owned]
    if unowned:
        lines.append(f"No member owns {partitions_text(unowned)}, although members subscribe to it.")
    idle = [each.whereabouts for each in group.members if not each.owned]
    if idle and owned:
        lines.append(
            f"{some(idle)} {'owns' if len(idle) == 1 else 'own'} no partition: all partitions have other owners."
        )
    return lines


def _lagging(progress: Sequence[Progress], now_ms: int) -> list[str]:
    total = total_lag(progress)
    if total is None:
        return []
    if total == 0:
        return ["The group has read all records."]
    worst = max(progress, key=lambda each: each.lag or 0)
    seconds = [age for each in progress if (age := each.lag_seconds(now_ms)) is not None]
    oldest = f", the oldest is {duration_text(max(seconds))} old" if seconds else ""
    owner = f", which {worst.owner.whereabouts} owns" if worst.owner else ""
    return [f"{total} records are unread{oldest}; most of them ({worst.lag}) are in {worst.partition}{owner}."]


def _committing(told: ExplainGroupResponse) -> list[str]:
    """Explains which offsets wait for the ends of transactions."""
    lines = []
    for each in told.transactions[:NAMED_MAX]:
        offsets = (
            "The offset of one partition waits"
            if each.partition_count == 1
            else (f"The offsets of {each.partition_count} partitions wait")
        )
        since = "" if each.since_ms < 0 else f", which committed the first of them {_ago(each.since_ms, told)} ago"
        lines.append(f"{offsets} for the end of the transaction of producer {each.producer_id}{since}.")
    if len(told.transactions) > NAMED_MAX:
        lines.append(f"Offsets wait for the ends of {len(told.transactions) - NAMED_MAX} more transactions.")
    return lines


def _coordinator(group: Group, told: ExplainGroupResponse) -> str:
    return (
        f"SPU {group.coordinator} has coordinated the group for {_ago(told.loaded_ms, told)} (partition "
        f"{told.partition} of {GROUPS_TOPIC}, epoch {told.epoch}) and does not know older rebalances."
    )


# words


def _because(rebalance: ExplainedRebalance | None) -> str:
    return "" if rebalance is None else f", because {rebalance.cause}"


def _ago(moment_ms: int, told: ExplainGroupResponse) -> str:
    return duration_text(max(told.now_ms - moment_ms, 0) / 1000)
