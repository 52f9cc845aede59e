"""Invented ExplainGroup responses for tests."""

from collections.abc import Mapping, Sequence

from tailrace.client.group_facts import Group, Member
from tailrace.client.log_facts import Partition
from tailrace.protocol.internal.explain_group import (
    ExplainedRebalance,
    ExplainGroupResponse,
    RebalanceArrival,
    RebalanceDeparture,
    RebalanceParticipant,
)

NOW_MS = 1_000_000


def participant(name: str) -> RebalanceParticipant:
    return RebalanceParticipant(f"{name}-id", name, "app", "/10.0.0.7")


def rebalance(
    cause: str = "a joined",
    arrivals: Mapping[str, int] | None = None,
    departures: Mapping[str, str] | None = None,
    expected: Sequence[str] = (),
    seconds_ago: int = 60,
    took_seconds: int | None = 1,
    departed_ms: int = 0,
) -> ExplainedRebalance:
    began_ms = NOW_MS - seconds_ago * 1000
    ended_ms = -1 if took_seconds is None else began_ms + took_seconds * 1000
    return ExplainedRebalance(
        cause,
        began_ms,
        ended_ms,
        ended_ms,
        7,
        len(expected),
        [participant(name) for name in expected],
        len(arrivals or {}),
        [RebalanceArrival(participant(name), after_ms) for name, after_ms in (arrivals or {}).items()],
        len(departures or {}),
        [RebalanceDeparture(participant(name), departed_ms, why) for name, why in (departures or {}).items()],
    )


def told(*rebalances: ExplainedRebalance, timeout_ms: int = 300_000) -> ExplainGroupResponse:
    return ExplainGroupResponse(
        now_ms=NOW_MS,
        partition=12,
        epoch=3,
        loaded_ms=NOW_MS - 7_200_000,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=timeout_ms,
        rebalances=list(rebalances),
    )


def member(name: str, owned: Sequence[Partition] = (), target: Sequence[Partition] | None = None) -> Member:
    aim = None if target is None else frozenset(target)
    return Member(f"{name}-id", "app", "/10.0.0.7", name, frozenset(owned), aim)


def group(state: str, *members: Member, kind: str = "classic", assignor: str = "cooperative-sticky") -> Group:
    return Group("g", kind, "consumer", state, 2, assignor, 9, 9, members)
