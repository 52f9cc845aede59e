"""The checks that the fault runs of triggers rely on find what they must find."""

import pytest
from msgspec.structs import replace
from triggers.handled import Commit, Handled, read_handled, repeats, violations

ONE, OTHER = 100, 200
"""Process ids of two replicas. Their workers have the next higher ids."""


def event(offset, start, end=..., owner=ONE, worker=None, shard=0):
    return Handled(shard, offset, start, start + 0.5 if end is ... else end, owner, worker or owner + 1)


CALM = [event(0, 1), event(1, 2), event(2, 3, owner=OTHER), event(3, 4, owner=OTHER)]


def test_a_calm_hand_over_is_right():
    assert violations(CALM, {0: range(4)}, [Commit(0, 2.6, 2), Commit(0, 5, 4)]) == []
    assert repeats(CALM) == []


def test_offsets_without_a_record_are_passed_over():
    handled = [event(0, 1), event(2, 2), event(5, 3, owner=OTHER)]
    assert violations(handled, {0: [0, 2, 5]}, [Commit(0, 2.6, 4)]) == []
    assert len(violations(handled, {0: [0, 1, 2, 3, 5]})) == 3


def test_shards_do_not_wait_for_each_other():
    assert violations([*CALM, *(replace(each, shard=1) for each in CALM)], {0: range(4), 1: range(4)}) == []


def test_a_repeat_of_what_was_not_committed_is_right():
    again = [event(0, 1), event(1, 2), event(1, 3, owner=OTHER), event(2, 4, owner=OTHER)]
    assert violations(again, {0: range(3)}, [Commit(0, 2.6, 1)]) == []
    assert repeats(again) == [(0, 1)]


def test_an_owner_that_lost_the_shard_and_got_it_again_repeats_what_was_not_committed():
    again = [event(0, 1), event(1, 2), event(2, 3), event(1, 5), event(2, 6), event(3, 7)]
    assert violations(again, {0: range(4)}, [Commit(0, 2.6, 1)], pause_seconds=1) == []
    assert violations(again, {0: range(4)}, [Commit(0, 2.6, 2)], pause_seconds=1) != []
    assert violations(again, {0: range(4)}, [Commit(0, 2.6, 1)], pause_seconds=2) != []


def test_an_event_whose_worker_was_killed_is_repeated_by_another_worker():
    records = {0: range(3)}
    still_there = [event(0, 1), event(1, 2, None), event(1, 3, worker=102), event(2, 4)]
    assert violations(still_there, records, pause_seconds=2) != []
    killed = [event(0, 1), event(1, 2, None), event(1, 3, worker=102), event(2, 4, worker=102)]
    assert violations(killed, records, pause_seconds=2) == []
    after_its_end = [event(0, 1), event(1, 2), event(1, 3, worker=102), event(2, 4, worker=102)]
    assert violations(after_its_end, records, pause_seconds=2) == []


@pytest.mark.parametrize(
    ("handled", "commits", "expected"),
    [
        pytest.param(CALM[:3], [], "never handled", id="lost at the end"),
        pytest.param([event(0, 1), event(1, 2, None)], [], "never handled", id="begun only"),
        pytest.param([*CALM, event(4, 5, owner=OTHER)], [], "that do not exist", id="made up"),
        pytest.param([*CALM, event(0, 5, shard=7)], [], "does not exist", id="another shard"),
        pytest.param([CALM[0], *CALM[2:]], [], "began at offset 2", id="left out by a new owner"),
        pytest.param([event(0, 1), event(2, 2), event(1, 3), event(3, 4)], [], "out of order", id="order"),
        pytest.param([*CALM[:2], event(1, 2.6), *CALM[2:]], [], "after only 0.100 s", id="repeated by its own worker"),
        pytest.param(
            [event(0, 1), event(0, 1.6), event(1, 3)], [], "after only 0.100 s", id="repeated at the beginning"
        ),
        pytest.param(
            [event(0, 1), event(1, 2, 3.2), event(2, 3, owner=OTHER), event(3, 4, owner=OTHER)],
            [],
            "two replicas at once",
            id="two replicas",
        ),
        pytest.param(
            [event(0, 1, 9), event(1, 2, owner=OTHER), event(2, 3, owner=OTHER), event(3, 4, owner=OTHER)],
            [],
            "two replicas at once",
            id="a long event",
        ),
        pytest.param(
            [event(0, 1, 2.1), event(1, 2, worker=102), event(2, 3), event(3, 4)],
            [],
            "two workers of one replica at once",
            id="two workers",
        ),
        pytest.param(
            [event(0, 1), event(1, 2), event(1, 3, owner=OTHER), event(2, 4, owner=OTHER), event(3, 5, owner=OTHER)],
            [Commit(0, 2.6, 2)],
            "2 was committed, and then",
            id="repeats what was committed",
        ),
        pytest.param(CALM, [Commit(0, 2.4, 1), Commit(0, 3.4, 3)], "3 was committed at", id="committed too early"),
    ],
)
def test_a_broken_promise_is_found(handled, commits, expected):
    found = violations(handled, {0: range(4)}, commits, pause_seconds=0.2)
    assert any(expected in each for each in found), found


def test_a_process_that_was_frozen_inside_an_event_may_end_it_later_but_begin_no_other():
    frozen = [event(0, 1, 9), event(0, 5, owner=OTHER), event(1, 6, owner=OTHER)]
    assert violations(frozen, {0: range(2)}) != []
    assert violations(frozen, {0: range(2)}, freezes={101: [(1.2, 8.9)]}) == []
    assert violations(frozen, {0: range(2)}, freezes={101: [(0.5, 8.9)]}) != []
    begun_late = [*frozen, event(2, 8.7, owner=OTHER), event(1, 8.95)]
    assert "two replicas at once" in violations(begun_late, {0: range(3)}, freezes={101: [(1.2, 8.9)]})[0]


def test_only_from_a_replica_that_left_a_shard_is_taken_at_once():
    by_turns = [event(0, 1), event(0, 2, owner=OTHER), event(1, 3), event(1, 4, owner=OTHER)]
    assert violations(by_turns, {0: range(2)}) == []
    assert len(violations(by_turns, {0: range(2)}, pause_seconds=0.6)) == 3
    assert violations(CALM, {0: range(4)}, pause_seconds=0.6) != []
    assert violations(CALM, {0: range(4)}, pause_seconds=0.5) == []
    assert violations(CALM, {0: range(4)}, left={ONE: 2.4}, pause_seconds=0.6) == []
    assert violations(CALM, {0: range(4)}, left={ONE: 3.1}, pause_seconds=0.6) != []


def test_nothing_is_repeated_after_a_replica_that_left():
    again = [event(0, 1), event(1, 2), event(1, 3, owner=OTHER), event(2, 4, owner=OTHER)]
    assert violations(again, {0: range(3)}) == []
    assert "had handled more" in violations(again, {0: range(3)}, left={ONE: 2.4})[0]
    given_up = [event(0, 1), event(1, 2, None), event(1, 3, owner=OTHER)]
    assert violations(given_up, {0: range(2)}, left={ONE: 2.4}) == []


def test_what_a_worker_wrote_is_read(tmp_path):
    lines = [
        "begin 3 0 1.000000 100 101",
        "end 3 0 1.500000 100 101",
        "begin 3 1 2.000000 100 101",
        "begin 3 1 3.000000 100 101",
        "end 3 1 3.500000 100 101",
        "begin 4 0 4.000000 100 101",
    ]
    (tmp_path / "101.events").write_text("\n".join(lines) + "\n")
    assert read_handled(tmp_path) == [
        event(0, 1, shard=3),
        event(1, 2, None, shard=3),
        event(1, 3, shard=3),
        event(0, 4, None, shard=4),
    ]
