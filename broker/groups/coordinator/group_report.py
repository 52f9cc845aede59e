"""The report of a group for `tailrace group explain`: its timeouts, last rebalances and open transactions."""

from itertools import islice

from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.group import Group
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.groups.common.rebalances import Participant, Rebalance
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.offsets.pending_offsets import PendingOffsets
from tailrace.protocol.internal.explain_group import (
    ExplainedRebalance,
    ExplainGroupResponse,
    GroupTransaction,
    RebalanceArrival,
    RebalanceDeparture,
    RebalanceParticipant,
)

PARTICIPANTS_MAX = 200
"""How many members of each kind are listed per rebalance. A list of ten thousand would delay all other requests."""
PENDING_MAX = 10_000
"""How many offsets of open transactions are looked at."""
_UNKNOWN = -1


def explain_group(group: Group, settings: GroupSettings, pending: PendingOffsets, now_ms: int) -> ExplainGroupResponse:
    """Describes the group. The caller fills in the fields about the coordinator itself."""
    timeouts = _timeouts(group, settings)
    return ExplainGroupResponse(
        now_ms=now_ms,
        group_type=group.kind,
        state=group.state,
        session_timeout_ms=max((session_ms for session_ms, _ in timeouts), default=_UNKNOWN),
        rebalance_timeout_ms=max((rebalance_ms for _, rebalance_ms in timeouts), default=_UNKNOWN),
        rebalances=[_rebalance(each) for each in group.rebalances],
        transactions=_transactions(group.group_id, pending),
    )


def _transactions(group_id: str, pending: PendingOffsets) -> list[GroupTransaction]:
    found: dict[int, GroupTransaction] = {}
    for each in islice(pending.of_group(group_id), PENDING_MAX):
        transaction = found.setdefault(each.producer_id, GroupTransaction(each.producer_id))
        transaction.partition_count += 1
        if each.committed is not None:
            since_ms, committed_ms = transaction.since_ms, each.committed.committed_ms
            transaction.since_ms = committed_ms if since_ms == _UNKNOWN else min(since_ms, committed_ms)
    return list(islice(found.values(), PARTICIPANTS_MAX))


def _timeouts(group: Group, settings: GroupSettings) -> list[tuple[int, int]]:
    """Returns the session timeout and the rebalance timeout of each member, in milliseconds."""
    match group:
        case ClassicGroup():
            return [(each.session_timeout_ms, each.rebalance_timeout_ms) for each in group.members]
        case ConsumerGroup():
            profiles = [each.profile for each in group.members.values()]
            silent_ms = settings.consumer_session_timeout_ms
            return [
                (silent_ms if each.classic is None else each.classic.session_timeout_ms, each.rebalance_timeout_ms)
                for each in profiles
            ]
    return []


def _rebalance(rebalance: Rebalance) -> ExplainedRebalance:
    return ExplainedRebalance(
        rebalance.cause,
        rebalance.began_ms,
        _known(rebalance.joined_ms),
        _known(rebalance.ended_ms),
        _known(rebalance.generation),
        len(rebalance.expected),
        [_participant(each) for each in islice(rebalance.expected.values(), PARTICIPANTS_MAX)],
        len(rebalance.arrivals),
        [
            RebalanceArrival(_participant(each.participant), _ms(each.seconds))
            for each in islice(reversed(rebalance.arrivals.values()), PARTICIPANTS_MAX)
        ][::-1],
        len(rebalance.departed),
        [
            RebalanceDeparture(_participant(each.participant), _ms(each.seconds), each.why)
            for each in rebalance.departed[-PARTICIPANTS_MAX:]
        ],
    )


def _participant(participant: Participant) -> RebalanceParticipant:
    return RebalanceParticipant(participant.member_id, participant.instance_id, participant.client_id, participant.host)


def _known(number: int | None) -> int:
    return _UNKNOWN if number is None else number


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
