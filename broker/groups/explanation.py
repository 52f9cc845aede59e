"""A group as it is explained to people: what its last rebalances were, and for how long it waits for whom."""

from tailrace.protocol.internal.explain_group import (
    ExplainedMember,
    ExplainedRebalance,
    ExplainGroupResponse,
    RebalanceArrival,
    RebalanceDeparture,
    RebalanceParticipant,
)

from .classic_group import ClassicGroup
from .consumer_group import ConsumerGroup
from .group import Group
from .rebalances import Participant, Rebalance
from .settings import GroupSettings

_UNKNOWN = -1


def explain_group(group: Group, settings: GroupSettings, now_ms: int) -> ExplainGroupResponse:
    """Without what is to be said of the coordinator itself."""
    return ExplainGroupResponse(
        now_ms=now_ms,
        group_type=group.kind,
        state=group.state,
        members=_members(group, settings),
        rebalances=[_rebalance(each) for each in group.rebalances],
    )


def _members(group: Group, settings: GroupSettings) -> list[ExplainedMember]:
    match group:
        case ClassicGroup():
            return [
                ExplainedMember(each.member_id, each.session_timeout_ms, each.rebalance_timeout_ms)
                for each in group.members
            ]
        case ConsumerGroup():
            return [
                ExplainedMember(
                    each.member_id,
                    settings.consumer_session_timeout_ms
                    if each.profile.classic is None
                    else each.profile.classic.session_timeout_ms,
                    each.profile.rebalance_timeout_ms,
                )
                for each in group.members.values()
            ]
    return []


def _rebalance(rebalance: Rebalance) -> ExplainedRebalance:
    return ExplainedRebalance(
        rebalance.cause,
        rebalance.began_ms,
        _known(rebalance.joined_ms),
        _known(rebalance.ended_ms),
        _known(rebalance.generation),
        [_participant(each) for each in rebalance.expected.values()],
        [RebalanceArrival(_participant(each.participant), _ms(each.seconds)) for each in rebalance.arrivals.values()],
        [
            RebalanceDeparture(_participant(each.participant), _ms(each.seconds), each.why)
            for each in rebalance.departed
        ],
    )


def _participant(participant: Participant) -> RebalanceParticipant:
    return RebalanceParticipant(participant.member_id, participant.instance_id, participant.client_id, participant.host)


def _known(number: int | None) -> int:
    return _UNKNOWN if number is None else number


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
