"""What a history of one committed offset may contain, and what it must not contain."""

import pytest
from simulation.offset_history import NO_OFFSET, GroupHistoryError, OffsetHistory

HISTORY = "group-1, partition 0"


def test_a_fetch_sees_what_was_committed_before_it() -> None:
    history = OffsetHistory(HISTORY)
    history.on_fetched(NO_OFFSET, "", 0, 1)
    write = history.on_commit("a", 5, 2)
    history.on_fetched(NO_OFFSET, "", 2, 3)  # the commit has not happened yet
    history.on_fetched(5, "a", 2, 4)  # the commit has happened now
    history.on_acknowledged(write, 6)
    history.on_fetched(5, "a", 7, 8)
    with pytest.raises(GroupHistoryError, match="one of them came back"):
        history.on_fetched(NO_OFFSET, "", 7, 8)


def test_an_acknowledged_commit_is_not_lost() -> None:
    history = OffsetHistory(HISTORY)
    history.on_acknowledged(history.on_commit("a", 5, 0), 1)
    with pytest.raises(GroupHistoryError, match="what was there in the beginning by"):
        history.on_fetched(NO_OFFSET, "", 2, 3)


def test_an_acknowledged_commit_is_not_undone() -> None:
    history = OffsetHistory(HISTORY)
    history.on_acknowledged(history.on_commit("a", 5, 0), 1)
    history.on_acknowledged(history.on_commit("b", 7, 2), 3)
    history.on_fetched(5, "a", 2, 3)  # at the same time as the second commit
    with pytest.raises(GroupHistoryError, match="came back"):
        history.on_fetched(5, "a", 4, 5)


def test_a_fetched_commit_is_not_undone_even_without_an_acknowledgement() -> None:
    history = OffsetHistory(HISTORY)
    history.on_acknowledged(history.on_commit("a", 5, 0), 1)
    history.on_commit("b", 7, 2)
    history.on_fetched(7, "b", 3, 4)
    with pytest.raises(GroupHistoryError, match="came back"):
        history.on_fetched(5, "a", 5, 6)


def test_a_commit_without_a_response_may_happen_once_at_any_later_time() -> None:
    history = OffsetHistory(HISTORY)
    history.on_commit("late", 5, 0)
    history.on_acknowledged(history.on_commit("b", 7, 1), 2)
    history.on_fetched(7, "b", 3, 4)
    history.on_fetched(5, "late", 5, 6)
    with pytest.raises(GroupHistoryError, match="came back"):
        history.on_fetched(7, "b", 7, 8)


def test_a_fetch_returns_only_what_was_committed() -> None:
    history = OffsetHistory(HISTORY)
    history.on_acknowledged(history.on_commit("a", 5, 0), 1)
    with pytest.raises(GroupHistoryError, match="nobody committed"):
        history.on_fetched(5, "b", 2, 3)
    with pytest.raises(GroupHistoryError, match="fetched as offset 6"):
        history.on_fetched(6, "a", 2, 3)
    history.on_commit("c", 9, 4)
    with pytest.raises(GroupHistoryError, match="before it was sent"):
        history.on_fetched(9, "c", 2, 3)


def test_a_refused_commit_has_not_happened() -> None:
    history = OffsetHistory(HISTORY)
    history.on_refused(history.on_commit("a", 5, 0))
    history.on_fetched(NO_OFFSET, "", 1, 2)
    with pytest.raises(GroupHistoryError, match="was refused"):
        history.on_fetched(5, "a", 1, 2)
    seen = history.on_commit("b", 6, 0)
    history.on_fetched(6, "b", 3, 4)
    with pytest.raises(GroupHistoryError, match="was refused"):
        history.on_refused(seen)


def test_a_commit_of_an_earlier_term_happens_before_the_later_one_began_or_never() -> None:
    history = OffsetHistory(HISTORY)
    late = history.on_commit("late", 5, 0, term=1)
    history.on_term(2, 3)
    history.on_acknowledged(late, 9)  # it was committed in time, and its response came late
    history.on_fetched(5, "late", 10, 11)
    history = OffsetHistory(HISTORY)
    history.on_commit("late", 5, 0, term=1)
    history.on_term(2, 3)
    history.on_fetched(NO_OFFSET, "", 4, 5)
    with pytest.raises(GroupHistoryError, match="came back"):
        history.on_fetched(5, "late", 6, 7)


def test_a_member_of_an_earlier_term_commits_nothing() -> None:
    for acknowledged in (True, False):
        history = OffsetHistory(HISTORY)
        history.on_term(1, 0)
        history.on_term(3, 3)
        history.on_acknowledged(history.on_commit("a", 5, 4, term=3), 5)
        write = history.on_commit("b", 6, 4, term=2)
        with pytest.raises(GroupHistoryError, match="a later term had begun"):
            if acknowledged:
                history.on_acknowledged(write, 5)
            else:
                history.on_fetched(6, "b", 5, 6)


def test_a_deletion_is_a_commit_of_nothing() -> None:
    history = OffsetHistory(HISTORY)
    history.on_fetched(NO_OFFSET, "", 0, 1)
    history.on_acknowledged(history.on_commit("a", 5, 2), 3)
    deletion = history.on_delete("gone", 4)
    history.on_fetched(5, "a", 4, 6)
    history.on_acknowledged(deletion, 5)
    history.on_fetched(NO_OFFSET, "", 7, 8)
    history.on_acknowledged(history.on_commit("b", 2, 9), 10)
    history.on_fetched(2, "b", 11, 12)
    with pytest.raises(GroupHistoryError, match="came back"):
        history.on_fetched(NO_OFFSET, "", 11, 12)


def test_what_was_deleted_does_not_come_back() -> None:
    history = OffsetHistory(HISTORY)
    history.on_acknowledged(history.on_commit("a", 5, 2), 3)
    history.on_acknowledged(history.on_delete("gone", 4), 5)
    with pytest.raises(GroupHistoryError, match="came back"):
        history.on_fetched(5, "a", 6, 7)
