"""What the last rebalances of a group tell of its members, and what would help against it.

The words LATE and SILENT, by which a coordinator tells what was wrong with a member, and the reasons that clients give
for leaving, decide what is advised.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tailrace.broker.groups.common.rebalances import LATE, SILENT
from tailrace.cli.clients.group_facts import Group, whereabouts
from tailrace.cli.clients.group_responses import CLASSIC, CONSUMER
from tailrace.protocol.internal.explain_group import ExplainedRebalance, ExplainGroupResponse, RebalanceParticipant

NAMED_MAX = 5
LONG_MS = 5_000
"""Up to three seconds are nobody's fault: consumers hear of a rebalance with a heartbeat, which they send so often."""
MANY = 3
"""Of the last rebalances: as many as this are worth an advice."""
EAGER = frozenset({"range", "roundrobin", "sticky"})
"""Assignors of clients that give up everything in each rebalance."""

_POLLED_TOO_LATE = (LATE, "poll timeout has expired", "poll interval exceeded")
"""The last two are what Java's consumer and librdkafka say when they leave for that reason."""


class Wait(Struct, frozen=True):
    """For whom all others waited in the end, and for how long."""

    participants: Sequence[RebalanceParticipant]
    count: int
    """How many there are, of whom these are some."""
    duration_ms: int

    @property
    def names(self) -> str:
        return some([who(each) for each in self.participants], self.count)


def waits(told: ExplainGroupResponse) -> list[Wait | None]:
    """One for each rebalance; None where nobody had to be waited for."""
    ends_ms = [*(each.began_ms for each in told.rebalances), told.now_ms][1:]
    return [_wait_in(each, end_ms) for each, end_ms in zip(told.rebalances, ends_ms, strict=True)]


def _wait_in(rebalance: ExplainedRebalance, end_ms: int) -> Wait | None:
    """`end_ms` is when the next one began, or now: for one whose own end never came."""
    moments = [(each.after_ms, each.participant) for each in rebalance.arrivals]
    moments += [(each.after_ms, each.participant) for each in rebalance.departures]
    latest = max((after_ms for after_ms, _ in moments), default=0)
    if rebalance.expected and rebalance.joined_ms < 0 and rebalance.ended_ms < 0:
        return Wait(rebalance.expected, rebalance.expected_count, max(end_ms - rebalance.began_ms - latest, 0))
    last = [participant for after_ms, participant in moments if after_ms == latest]
    earlier = [after_ms for after_ms, _ in moments if after_ms < latest]
    return Wait(last, len(last), latest - max(earlier)) if earlier else None


def advice(group: Group, told: ExplainGroupResponse) -> list[str]:
    rebalances = told.rebalances
    lines = []
    too_late = _blamed(rebalances, _POLLED_TOO_LATE)
    if too_late:
        lines.append(
            f"Removed, because max.poll.interval.ms{_limit(told)} passed between two polls: {some(too_late)}. Do less "
            "between polls (max.poll.records), or raise max.poll.interval.ms."
        )
    slow = _waited_for(told)
    if slow:
        lines.append(
            f"All others waited for {some(slow)}. Who comes late polls too rarely: do less between polls "
            "(max.poll.records)."
        )
    silent = _blamed(rebalances, (SILENT,))
    if silent:
        lines.append(
            f"Not heard of any more: {some(silent)}. Who sends no heartbeats has died or stood still: see its log, and "
            "what else its machine does. If such pauses are normal there, raise session.timeout.ms (for KIP-848 groups "
            "group.consumer.session.timeout.ms)."
        )
    moving = [each for each in rebalances if _is_coming_or_going(each)]
    if len(moving) >= MANY and any(each.instance_id is None for each in group.members):
        lines.append(
            f"{len(moving)} of the last {len(rebalances)} rebalances began because a member came or left: with a "
            "group.instance.id a restart within session.timeout.ms begins none."
        )
    if group.type == CLASSIC and group.assignor in EAGER and len(rebalances) >= MANY:
        lines.append(
            f"With the assignor {group.assignor} all members give up everything in each rebalance: with "
            f"cooperative-sticky, or group.protocol={CONSUMER}, they give up only what moves."
        )
    return lines


def _blamed(rebalances: Iterable[ExplainedRebalance], phrases: Sequence[str]) -> list[str]:
    """Of whom one of these is said, as the cause of a rebalance or where they left one."""
    names = {}
    for each in rebalances:
        for departure in each.departures:
            if any(phrase in departure.why for phrase in phrases):
                names[name_of(departure.participant)] = who(departure.participant)
        for phrase in phrases:
            if phrase in each.cause:
                name = each.cause.partition(phrase)[0].partition(" left")[0].strip()
                names.setdefault(name, name)
    return list(names.values())


def _waited_for(told: ExplainGroupResponse) -> list[str]:
    """With for how long, and how often."""
    times: dict[str, list[int]] = {}
    for wait in waits(told):
        if wait is not None and wait.duration_ms >= LONG_MS:
            for participant in wait.participants:
                times.setdefault(who(participant), []).append(wait.duration_ms)
    return [
        f"{name} {f'{len(found)} times, for up to' if len(found) > 1 else 'for'} {max(found) / 1000:.1f} s"
        for name, found in times.items()
    ]


def _is_coming_or_going(rebalance: ExplainedRebalance) -> bool:
    return rebalance.cause.partition(", saying")[0].endswith((" joined", " left"))


def _limit(told: ExplainGroupResponse) -> str:
    return "" if told.rebalance_timeout_ms < 0 else f" ({told.rebalance_timeout_ms / 1000:g} s)"


# words


def who(participant: RebalanceParticipant) -> str:
    return whereabouts(name_of(participant), participant.client_id, participant.host)


def name_of(participant: RebalanceParticipant) -> str:
    return participant.instance_id or participant.member_id


def some(names: Sequence[str], count: int | None = None) -> str:
    """`count`: of how many these are the first."""
    more = (len(names) if count is None else count) - min(len(names), NAMED_MAX)
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
