import pytest
from explained_groups import group, member, participant, rebalance, told

from tailrace.cli.groups.group_advice import Wait, advice, waits
from tailrace.client.group_facts import Group, Member
from tailrace.protocol.internal.explain_group import ExplainedRebalance

STABLE = group("Stable", member("a"))


def _advice(*rebalances: ExplainedRebalance, subject: Group = STABLE) -> list[str]:
    return advice(subject, told(*rebalances))


def test_all_waited_for_who_came_last() -> None:
    slow = rebalance(arrivals={"a": 0, "b": 100, "slow": 12_400})
    assert waits(told(slow)) == [Wait([participant("slow")], 1, 12_300)]


def test_or_for_who_was_removed_in_the_end() -> None:
    stuck = rebalance(
        arrivals={"a": 300}, departures={"slow": "left", "slower": "did not join within 8.0 s"}, departed_ms=8_000
    )
    assert waits(told(stuck)) == [Wait([participant("slow"), participant("slower")], 2, 7_700)]


def test_who_is_alone_is_not_waited_for() -> None:
    assert waits(told(rebalance(arrivals={"a": 400}), rebalance())) == [None, None]


def test_a_rebalance_that_goes_on_waits_until_now() -> None:
    awaited = rebalance(arrivals={"b": 0, "c": 400}, expected=["a", "d"], seconds_ago=60, took_seconds=None)
    later = rebalance(arrivals={"b": 0}, expected=["a"], seconds_ago=20, took_seconds=None)
    assert waits(told(awaited, later)) == [
        # The next one has begun meanwhile.
        Wait([participant("a"), participant("d")], 2, 39_600),
        Wait([participant("a")], 1, 20_000),
    ]


def test_who_has_not_been_there_yet_is_not_waited_for_by_name() -> None:
    """A new group waits a moment for more members to join."""
    assert waits(told(rebalance(arrivals={"a": 0}, took_seconds=None))) == [None]


def test_all_is_well() -> None:
    assert _advice() == []
    assert _advice(rebalance(arrivals={"a": 0, "b": 3_000}), rebalance("b left")) == []


def test_who_polls_too_rarely_is_told_so() -> None:
    late = rebalance(arrivals={"a": 0, "b": 100, "slow": 12_400})
    later = rebalance(arrivals={"a": 0, "slow": 8_000})
    assert _advice(late, later) == [
        "All other members waited for slow (app at 10.0.0.7) 2 times, for up to 12.3 s. A late member polls "
        "too rarely: do less work between polls (max.poll.records)."
    ]
    assert "for slow (app at 10.0.0.7) for 8.0 s" in _advice(later)[0]


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (rebalance(departures={"slow": "did not join within 300.0 s", "quick": "left"}), "slow (app at 10.0.0.7)"),
        (rebalance("slow did not revoke its partitions in time"), "slow"),
        (rebalance('slow left, saying "consumer poll timeout has expired."'), "slow"),
        (rebalance(departures={"slow": 'left, saying "max poll interval exceeded"'}), "slow (app at 10.0.0.7)"),
    ],
)
def test_who_was_removed_for_it_is_told_what_to_raise(found: ExplainedRebalance, name: str) -> None:
    (line,) = _advice(found)
    assert line.startswith(
        f"Removed because more than max.poll.interval.ms (300 s) passed between two polls: {name}. Do less work"
    )


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (rebalance("a sent no heartbeat for 45 s, its session timeout"), "a"),
        (rebalance(departures={"a": "sent no heartbeat for 45 s"}), "a (app at 10.0.0.7)"),
    ],
)
def test_who_was_silent_may_have_died(found: ExplainedRebalance, name: str) -> None:
    (line,) = _advice(found, found)
    assert line.startswith(f"Removed because their heartbeats stopped: {name}. Such a member has died or paused")


def test_restarts_need_no_rebalances() -> None:
    nameless = group("Stable", Member("m-1", "app", "/10.0.0.7"))
    coming_and_going = [rebalance("a joined"), rebalance('a left, saying "closing"'), rebalance("a joined")]
    (line,) = _advice(*coming_and_going, subject=nameless)
    assert line.startswith("3 of the last 3 rebalances began because a member joined or left. If members ")
    assert _advice(*coming_and_going) == []
    assert _advice(*coming_and_going[:2], subject=nameless) == []


def test_assignors_that_stop_everybody_can_be_replaced() -> None:
    rebalances = [rebalance("the leader a joined again")] * 3
    (line,) = _advice(*rebalances, subject=group("Stable", member("a"), assignor="range"))
    assert line.startswith("With the assignor range all members give up all partitions in each rebalance")
    assert _advice(*rebalances, subject=group("Stable", member("a"), kind="consumer", assignor="range")) == []


def test_of_many_some_are_named() -> None:
    lines = _advice(rebalance(departures={f"m{number}": "did not join within 8 s" for number in range(8)}))
    assert "m4 (app at 10.0.0.7) and 3 more. Do less" in lines[0]
