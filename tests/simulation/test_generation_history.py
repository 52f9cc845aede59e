"""What members of a classic group may be told, and what they must not be told."""

import pytest
from simulation.generation_history import GenerationHistory
from simulation.offset_history import GroupHistoryError, OffsetHistory


def _set(*partitions: int) -> frozenset[int]:
    return frozenset(partitions)


def _history() -> GenerationHistory:
    return GenerationHistory("group-1", [OffsetHistory("group-1, partition 0")])


def test_all_members_get_what_one_leader_planned() -> None:
    history = _history()
    history.on_planned(1, {"a": _set(0), "b": _set(1, 2)})
    history.on_assigned("b", 1, _set(1, 2), 0, 1)
    history.on_planned(1, {"a": _set(0, 1), "b": _set(2)})  # another process of the leader's instance plans again
    history.on_assigned("a", 1, _set(0), 0, 2)
    history.on_assigned("a", 1, _set(0), 3, 4)
    with pytest.raises(GroupHistoryError, match=r"a was assigned \[0\] in 1, then \[0, 1\]"):
        history.on_assigned("a", 1, _set(0, 1), 5, 6)


def test_an_assignment_that_no_leader_planned_is_detected() -> None:
    with pytest.raises(GroupHistoryError, match="no leader"):
        _history().on_assigned("a", 1, _set(0), 0, 1)
    history = _history()
    history.on_planned(1, {"a": _set(0), "b": _set(1)})
    history.on_planned(1, {"a": _set(1), "b": _set()})
    history.on_assigned("a", 1, _set(0), 0, 1)
    with pytest.raises(GroupHistoryError, match="no leader"):
        history.on_assigned("b", 1, _set(), 0, 1)


def test_whom_the_plan_does_not_know_gets_nothing() -> None:
    history = _history()
    history.on_planned(1, {"a": _set(0)})
    history.on_assigned("b", 1, _set(), 0, 1)


def test_a_partition_has_one_owner_in_a_generation() -> None:
    history = _history()
    history.on_planned(1, {"a": _set(0, 1), "b": _set(1)})
    history.on_assigned("a", 1, _set(0, 1), 0, 1)
    with pytest.raises(GroupHistoryError, match=r"b and a were both assigned \[1\] in 1"):
        history.on_assigned("b", 1, _set(1), 0, 1)


def test_generations_do_not_fall() -> None:
    history = _history()
    for generation in (4, 5):
        history.on_planned(generation, {"a": _set(0)})
    history.on_assigned("a", 5, _set(0), 0, 2)
    history.on_assigned("a", 4, _set(0), 1, 3)  # the request was sent before, and its response arrives late
    history.on_joined("b", 5, 3)
    with pytest.raises(GroupHistoryError, match="told of generation 4 although 5"):
        history.on_joined("b", 4, 3)
    with pytest.raises(GroupHistoryError, match="told of generation 4 although 5"):
        history.on_assigned("a", 4, _set(0), 3, 4)


def test_offsets_are_told_of_new_generations() -> None:
    offsets = OffsetHistory("group-1, partition 0")
    history = GenerationHistory("group-1", [offsets])
    history.on_planned(2, {"a": _set(0)})
    history.on_assigned("a", 2, _set(0), 0, 1)
    with pytest.raises(GroupHistoryError, match="a later term"):
        offsets.on_acknowledged(offsets.on_commit("x", 5, 2, term=1), 3)
