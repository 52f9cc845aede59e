from collections.abc import Mapping, Sequence

import pytest

from tailrace.cli.group_explanation import Topics, explanation, late_ms, took_ms
from tailrace.cli.group_facts import Group, LogEnds, Member, Partition, Progress
from tailrace.protocol.internal.explain_group import (
    ExplainedMember,
    ExplainedRebalance,
    ExplainGroupResponse,
    RebalanceArrival,
    RebalanceDeparture,
    RebalanceParticipant,
)

NOW_MS = 1_000_000
ORDERS = [Partition("orders", number) for number in range(4)]
NO_TOPICS: Topics = {}


def _who(name: str) -> RebalanceParticipant:
    return RebalanceParticipant(f"{name}-id", name, "app", "/10.0.0.7")


def _rebalance(
    cause: str = "a joined",
    arrivals: Mapping[str, int] | None = None,
    departures: Mapping[str, str] | None = None,
    expected: Sequence[str] = (),
    seconds_ago: int = 60,
    took_seconds: int | None = 1,
) -> ExplainedRebalance:
    began_ms = NOW_MS - seconds_ago * 1000
    ended_ms = -1 if took_seconds is None else began_ms + took_seconds * 1000
    return ExplainedRebalance(
        cause,
        began_ms,
        ended_ms,
        ended_ms,
        7,
        [_who(name) for name in expected],
        [RebalanceArrival(_who(name), after_ms) for name, after_ms in (arrivals or {}).items()],
        [RebalanceDeparture(_who(name), 0, why) for name, why in (departures or {}).items()],
    )


def _told(*rebalances: ExplainedRebalance, timeout_ms: int = 300_000) -> ExplainGroupResponse:
    return ExplainGroupResponse(
        now_ms=NOW_MS,
        partition=12,
        epoch=3,
        loaded_ms=NOW_MS - 7_200_000,
        members=[ExplainedMember("a-id", 45_000, timeout_ms)],
        rebalances=list(rebalances),
    )


def _member(name: str, owned: Sequence[Partition] = (), target: Sequence[Partition] | None = None) -> Member:
    aim = None if target is None else frozenset(target)
    return Member(f"{name}-id", "app", "/10.0.0.7", name, frozenset(owned), aim)


def _group(state: str, *members: Member, kind: str = "classic", assignor: str = "cooperative-sticky") -> Group:
    return Group("g", kind, "consumer", state, 2, assignor, 9, 9, members)


def _now(group: Group, *rebalances: ExplainedRebalance, topics: Topics = NO_TOPICS) -> list[str]:
    """Without what is always said at the end, of the coordinator."""
    *lines, coordinator = explanation(group, _told(*rebalances), [], topics, NOW_MS).now
    assert coordinator.startswith("SPU 2 coordinates it, for 2 h (partition 12 of __consumer_offsets, epoch 3); ")
    return lines


def _advice(*rebalances: ExplainedRebalance, group: Group | None = None) -> list[str]:
    return explanation(group or _group("Stable", _member("a")), _told(*rebalances), [], NO_TOPICS, NOW_MS).advice


@pytest.mark.parametrize(
    ("state", "rebalances", "lines"),
    [
        ("Empty", [], ["Nobody is in it."]),
        ("Empty", [_rebalance("a left")], ["Nobody is in it, because a left."]),
        ("Stable", [], ["It is stable: its members work on what they own."]),
        ("Stable", [_rebalance()], ["It is stable, for 59 s: its members work on what they own."]),
        ("PreparingRebalance", [], ["It rebalances: it waits for its members to join again."]),
        (
            "PreparingRebalance",
            [_rebalance("b joined", expected=["a", "c"], took_seconds=None)],
            [
                "It rebalances, for 1 m, because b joined.",
                "It waits for a (app at 10.0.0.7), c (app at 10.0.0.7) to join again, for 4 m more at most "
                "(max.poll.interval.ms: 300 s).",
            ],
        ),
        (
            "PreparingRebalance",
            [_rebalance("b joined", arrivals={"b": 0}, seconds_ago=1, took_seconds=None)],
            [
                "It rebalances, for 1 s, because b joined.",
                "It waits a little for more members to come (group.initial.rebalance.delay.ms).",
            ],
        ),
        (
            "CompletingRebalance",
            [_rebalance(took_seconds=2)],
            ["All have joined, and the member that leads makes the assignment, for 58 s."],
        ),
        ("Assigning", [_rebalance()], ["Its assignment for epoch 9 is being made, because a joined."]),
    ],
)
def test_what_a_group_is_doing(state: str, rebalances: list[ExplainedRebalance], lines: list[str]) -> None:
    assert _now(_group(state), *rebalances) == lines


def test_who_has_to_give_up_and_who_waits_for_that() -> None:
    giving = _member("a", ORDERS[:4], ORDERS[:2])
    waiting = _member("b", [], ORDERS[2:])
    settled = _member("c", [Partition("t", 0)], [Partition("t", 0)])
    assert _now(_group("Reconciling", giving, waiting, settled, kind="consumer"), _rebalance(took_seconds=None)) == [
        "Its members take over what epoch 9 gives them, for 1 m, because a joined.",
        "a (app at 10.0.0.7) has to give up orders/2-3.",
        "b (app at 10.0.0.7) waits for orders/2-3, until a has given it up.",
    ]


def test_of_many_who_reconcile_some_are_named() -> None:
    members = [_member(f"m{number}", [], ORDERS[:1]) for number in range(8)]
    lines = _now(_group("Reconciling", *members, kind="consumer"))
    assert len(lines) == 1 + 5 + 1
    assert lines[-1] == "And 3 more."


def test_what_nobody_owns_and_who_owns_nothing() -> None:
    group = _group("Stable", _member("a", ORDERS[:1]), _member("b"))
    assert _now(group, topics={"orders": ORDERS, "nope": None})[1:] == [
        "Members are subscribed to nope, which does not exist.",
        "Nobody owns orders/1-3, though members are subscribed to it.",
        "b (app at 10.0.0.7) owns nothing: all partitions have other owners.",
    ]
    assert _now(_group("Stable", _member("a", ORDERS)), topics={"orders": ORDERS})[1:] == []
    assert _now(_group("Empty"), topics={"orders": ORDERS})[1:] == []


def _lag(*progress: Progress) -> str:
    told = _told()
    return explanation(_group("Empty"), told, progress, NO_TOPICS, NOW_MS).now[1]


def test_what_is_unread() -> None:
    log = LogEnds(0, 100)
    owner = _member("a")
    most = Progress(ORDERS[0], 10, log=log, unread_since_ms=NOW_MS - 5_000, owner=owner)
    older = Progress(ORDERS[1], 98, log=log, unread_since_ms=NOW_MS - 90_000)
    assert _lag(most, older) == (
        "92 records are unread, the oldest for 2 m; most of them, 90, in orders/0, which a (app at 10.0.0.7) owns."
    )
    assert _lag(Progress(ORDERS[0], 100, log=log)) == "It has read everything."
    assert _lag(Progress(ORDERS[0], log=log)).startswith("SPU 2 coordinates it")


def test_all_is_well() -> None:
    assert _advice() == []
    assert _advice(_rebalance(arrivals={"a": 0, "b": 3_000}), _rebalance("b left")) == []


def test_who_polls_too_rarely_is_told_so() -> None:
    late = _rebalance(arrivals={"a": 0, "b": 100, "slow": 12_400})
    later = _rebalance(arrivals={"a": 0, "slow": 8_000})
    assert (late_ms(late), late_ms(_rebalance(arrivals={"a": 0})), took_ms(late)) == (12_300, None, 1_000)
    assert _advice(late, later) == [
        "All others stood still and waited for slow (app at 10.0.0.7) 2 times, for up to 12.3 s. Who comes late "
        "polls too rarely: do less between polls (max.poll.records)."
    ]


def test_who_was_removed_for_it_is_told_what_to_raise() -> None:
    (line,) = _advice(_rebalance(departures={"slow": "did not join within 300.0 s", "quick": "left"}))
    assert line.startswith(
        "Removed, because max.poll.interval.ms (300 s) passed between two polls: slow (app at 10.0.0.7). "
    )
    assert "quick" not in line


@pytest.mark.parametrize(
    "rebalance",
    [
        _rebalance("a was not heard of for 45 s, its session timeout"),
        _rebalance(departures={"a": "was not heard of for 45 s"}),
    ],
)
def test_who_was_silent_may_have_died(rebalance: ExplainedRebalance) -> None:
    (line,) = _advice(rebalance)
    assert line.startswith("Members that were not heard of have died or stood still")


def test_restarts_need_no_rebalances() -> None:
    nameless = Member("m-1", "app", "/10.0.0.7")
    coming_and_going = [_rebalance("a joined"), _rebalance('a left, saying "closing"'), _rebalance("a joined")]
    (line,) = _advice(*coming_and_going, group=_group("Stable", nameless))
    assert line.startswith("3 of the last 3 rebalances began because a member came or left: with a group.instance.id ")
    assert _advice(*coming_and_going, group=_group("Stable", _member("a"))) == []
    assert _advice(*coming_and_going[:2], group=_group("Stable", nameless)) == []


def test_assignors_that_stop_everybody_can_be_replaced() -> None:
    rebalances = [_rebalance("the leader a joined again")] * 3
    (line,) = _advice(*rebalances, group=_group("Stable", _member("a"), assignor="range"))
    assert line.startswith("With the assignor range all members give up everything in each rebalance")
    assert _advice(*rebalances, group=_group("Stable", _member("a"), kind="consumer", assignor="range")) == []


def test_the_newest_rebalance_comes_first() -> None:
    first, second = _rebalance("a joined"), _rebalance("b joined")
    assert explanation(_group("Stable"), _told(first, second), [], NO_TOPICS, NOW_MS).rebalances == [second, first]
