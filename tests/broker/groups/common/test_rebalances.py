import pytest

from tailrace.broker.groups.common.rebalances import (
    DEPARTED_MAX,
    REBALANCES_KEPT,
    Participant,
    Rebalance,
    new_rebalance_history,
)


def participant(member_id: str, instance_id: str | None = None) -> Participant:
    return Participant(member_id, instance_id, "client", "/127.0.0.1")


A, B, C = participant("a"), participant("b"), participant("c", "worker-3")


def begun() -> Rebalance:
    return Rebalance("c joined", began=100.0, began_ms=7, expected={"a": A, "b": B})


def test_a_member_is_named_by_its_instance_if_it_has_one() -> None:
    assert (A.name, C.name) == ("a", "worker-3")


def test_who_was_late_and_by_how_much() -> None:
    rebalance = begun()
    assert rebalance.last is None and rebalance.late_seconds is None
    rebalance.on_arrival(C, 100.0)
    assert rebalance.last is not None and rebalance.last.participant == C
    assert rebalance.late_seconds is None, "nobody waited for the only one"
    rebalance.on_arrival(A, 100.5)
    rebalance.on_arrival(B, 103.0)
    assert rebalance.last.participant == B and rebalance.last.seconds == 3.0
    assert rebalance.late_seconds == pytest.approx(2.5)
    assert rebalance.expected == {}


def test_the_last_arrival_of_a_member_counts() -> None:
    rebalance = begun()
    rebalance.on_arrival(A, 101.0)
    rebalance.on_arrival(B, 102.0)
    rebalance.on_arrival(A, 104.0)
    assert [(arrival.participant.member_id, arrival.seconds) for arrival in rebalance.arrivals.values()] == [
        ("b", 2.0),
        ("a", 4.0),
    ]


def test_a_member_that_left_is_neither_expected_nor_arrived() -> None:
    rebalance = begun()
    rebalance.on_arrival(A, 101.0)
    rebalance.on_departure(A, "left", 102.0)
    rebalance.on_departure(B, "did not come within 60 s", 160.0)
    assert not rebalance.expected and not rebalance.arrivals
    assert [(gone.participant.member_id, gone.seconds, gone.why) for gone in rebalance.departed] == [
        ("a", 2.0, "left"),
        ("b", 60.0, "did not come within 60 s"),
    ]


def test_what_is_kept_is_bounded() -> None:
    rebalance = begun()
    for number in range(DEPARTED_MAX + 5):
        rebalance.on_departure(participant(f"m{number}"), "left", 101.0)
    assert len(rebalance.departed) == DEPARTED_MAX
    kept = new_rebalance_history()
    kept.extend(begun() for _ in range(REBALANCES_KEPT + 1))
    assert len(kept) == REBALANCES_KEPT
