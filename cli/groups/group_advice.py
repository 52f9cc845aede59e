"""Derives advice from the last rebalances of a group: which members were late or slow, and what would help.

The advice follows from the words LATE and SILENT, with which a coordinator says what was wrong with a member, and from
the reasons that clients give when they leave.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tailrace.broker.groups.common.rebalances import LATE, SILENT
from tailrace.client.group_facts import Group, whereabouts
from tailrace.client.group_responses import CLASSIC, CONSUMER
from tailrace.protocol.internal.explain_group import ExplainedRebalance, ExplainGroupResponse, RebalanceParticipant

NAMED_MAX = 5
LONG_MS = 5_000
"""How long a member must be waited for to be named as slow.

Up to three seconds are normal, because consumers learn of a rebalance with their next heartbeat.
"""
MANY = 3
"""The number of similar rebalances that is worth an advice."""
EAGER = frozenset({"range", "roundrobin", "sticky"})
"""The assignors whose members give up all partitions in each rebalance."""

_POLLED_TOO_LATE = (LATE, "poll timeout has expired", "poll interval exceeded")
"""The words for a member that polled too late; Java's consumer and librdkafka use the last two when they leave."""


class Wait(Struct, frozen=True):
    """The participants for which all others waited at the end of a rebalance."""

    participants: Sequence[RebalanceParticipant]
    """Some of the participants."""
    count: int
    """The number of all of them."""
    duration_ms: int
    """How long the others waited."""

    @property
    def names(self) -> str:
        """The names of the participants, shortened if there are many."""
        return some([who(each) for each in self.participants], self.count)


def waits(told: ExplainGroupResponse) -> list[Wait | None]:
    """Returns the wait in each rebalance; None for a rebalance in which all participants came at once."""
    ends_ms = [*(each.began_ms for each in told.rebalances), told.now_ms][1:]
    return [_wait_in(each, end_ms) for each, end_ms in zip(told.rebalances, ends_ms, strict=True)]


def _wait_in(rebalance: ExplainedRebalance, end_ms: int) -> Wait | None:
    """Returns the wait in one rebalance; `end_ms` is the end of a rebalance that was never completed."""
    moments = [(each.after_ms, each.participant) for each in rebalance.arrivals]
    moments += [(each.after_ms, each.participant) for each in rebalance.departures]
    latest = max((after_ms for after_ms, _ in moments), default=0)
    if rebalance.expected and rebalance.joined_ms < 0 and rebalance.ended_ms < 0:
        return Wait(rebalance.expected, rebalance.expected_count, max(end_ms - rebalance.began_ms - latest, 0))
    last = [participant for after_ms, participant in moments if after_ms == latest]
    earlier = [after_ms for after_ms, _ in moments if after_ms < latest]
    return Wait(last, len(last), latest - max(earlier)) if earlier else None


def advice(group: Group, told: ExplainGroupResponse) -> list[str]:
    """Returns sentences about what has gone wrong, and what to change."""
    rebalances = told.rebalances
    lines = []
    too_late = _blamed(rebalances, _POLLED_TOO_LATE)
    if too_late:
        lines.append(
            f"Removed because more than max.poll.interval.ms{_limit(told)} passed between two polls: {some(too_late)}. "
            "Do less work between polls (max.poll.records), or raise max.poll.interval.ms."
        )
    slow = _waited_for(told)
    if slow:
        lines.append(
            f"All other members waited for {some(slow)}. A late member polls too rarely: do less work between polls "
            "(max.poll.records)."
        )
    silent = _blamed(rebalances, (SILENT,))
    if silent:
        lines.append(
            f"Removed because their heartbeats stopped: {some(silent)}. Such a member has died or paused: look at its "
            "log, and at the load of its machine. If pauses are normal there, raise session.timeout.ms (for KIP-848 "
            "groups group.consumer.session.timeout.ms)."
        )
    moving = [each for each in rebalances if _is_coming_or_going(each)]
    if len(moving) >= MANY and any(each.instance_id is None for each in group.members):
        lines.append(
            f"{len(moving)} of the last {len(rebalances)} rebalances began because a member joined or left. If members "
            "have a group.instance.id, a restart within session.timeout.ms causes no rebalance."
        )
    if group.type == CLASSIC and group.assignor in EAGER and len(rebalances) >= MANY:
        lines.append(
            f"With the assignor {group.assignor} all members give up all partitions in each rebalance. With "
            f"cooperative-sticky, or group.protocol={CONSUMER}, they give up only the partitions that move."
        )
    return lines


def _blamed(rebalances: Iterable[ExplainedRebalance], phrases: Sequence[str]) -> list[str]:
    """Returns the members that one of the phrases describes, as the cause of a rebalance or when they left."""
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
    """Returns the members for which others waited long, with how long and how often."""
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


# names


def who(participant: RebalanceParticipant) -> str:
    """Names a participant with its client and host."""
    return whereabouts(name_of(participant), participant.client_id, participant.host)


def name_of(participant: RebalanceParticipant) -> str:
    """Returns the instance id of a participant, or else its member id."""
    return participant.instance_id or participant.member_id


def some(names: Sequence[str], count: int | None = None) -> str:
    """Lists the first names, and how many more there are of `count` in all."""
    more = (len(names) if count is None else count) - min(len(names), NAMED_MAX)
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
