"""The checker of triggers accepts what is right, and names what is wrong."""

import pytest
from simulation.triggers.trigger_history import (
    Claim,
    Commit,
    End,
    Handling,
    Segment,
    Tenure,
    TriggerError,
    TriggerHistory,
    check_commits,
    check_exactly_once,
    check_overlaps,
)


def claimed(history: TriggerHistory, owner: str = "one", epoch: int = 1, offset: int = 0) -> None:
    history.on_claiming(owner, 0)
    history.on_claimed(owner, 0, epoch, offset)


def handle(history: TriggerHistory, offset: int, end: End = End.HANDLED, *, owner: str = "one") -> Handling:
    handling = history.begin(owner, 0, offset, b"%d" % offset, float(offset))
    history.end(handling, end, offset + 0.5, None)
    return handling


def test_records_are_handled_in_order_and_failed_ones_again() -> None:
    history = TriggerHistory(attempts=2)
    claimed(history)
    handle(history, 0)
    handle(history, 1, End.FAILED)
    handle(history, 1)
    handle(history, 2, End.CUT)
    handle(history, 2)
    assert history.unsettled({0: 3}) is None
    assert history.unsettled({0: 4}) == "0/3 is not handled; the shard ends at 4"
    with pytest.raises(TriggerError, match="one begins 0/4, but its next event is 3"):
        handle(history, 4)


def test_a_record_is_passed_over_after_its_last_attempt_or_if_it_does_not_exist() -> None:
    history = TriggerHistory(attempts=2, has_record=lambda shard, offset: offset != 1)
    claimed(history)
    handle(history, 0, End.FAILED)
    with pytest.raises(TriggerError, match="its next event is 0"):
        handle(history, 2)
    handle(history, 0, End.FAILED)
    handle(history, 2)
    assert history.unsettled({0: 3}) is not None
    history.on_dead_letters_acknowledged([b"0"])
    assert history.unsettled({0: 3}) is None


def test_nothing_is_handled_without_a_claim_or_by_a_deposed_owner() -> None:
    history = TriggerHistory(attempts=2)
    with pytest.raises(TriggerError, match="without the last claim"):
        handle(history, 0)
    claimed(history)
    handle(history, 0)
    claimed(history, "other", 2, 0)
    with pytest.raises(TriggerError, match="one begins 0/1 without the last claim"):
        handle(history, 1)
    handle(history, 0, owner="other")
    assert history.repeats == 1


def test_what_a_dead_worker_had_not_sent_is_handled_again() -> None:
    history = TriggerHistory(attempts=2)
    claimed(history)
    tenure = handle(history, 0).tenure
    handle(history, 1)
    history.lose(tenure, 1)
    handle(history, 1)
    handle(history, 2)


def test_a_mark_passes_nothing_that_is_unhandled_or_whose_output_is_not_acknowledged() -> None:
    history = TriggerHistory(attempts=2)
    claimed(history)
    handle(history, 0)
    history.on_committing("one", {0: 1})
    with pytest.raises(TriggerError, match="one commits 2 in shard 0, but 1 is not handled and sent"):
        history.on_committing("one", {0: 2})
    emitting = history.begin("one", 0, 1, b"1", 1.0)
    history.end(emitting, End.HANDLED, 1.5, b"1")
    with pytest.raises(TriggerError, match="but 1 is not handled and sent"):
        history.on_committing("one", {0: 2})
    history.on_outputs_acknowledged([b"1"])
    history.on_committing("one", {0: 2})


def test_a_claim_begins_where_the_last_owner_committed_or_left() -> None:
    history = TriggerHistory(attempts=2)
    claimed(history)
    handle(history, 0)
    handle(history, 1)
    history.on_committed(0, 1)
    claimed(history, "other", 2, 1)
    with pytest.raises(TriggerError, match="third begins shard 0 at 0, although 1 was committed"):
        claimed(history, "third", 3, 0)
    handle(history, 1, owner="other")
    history.on_left("other")
    with pytest.raises(TriggerError, match="fourth begins shard 0 at 1, although it was released at 2"):
        claimed(history, "fourth", 4, 1)


def test_a_commit_that_comes_between_a_claims_read_and_its_write_is_forgotten() -> None:
    history = TriggerHistory(attempts=2)
    claimed(history)
    handle(history, 0)
    history.on_claiming("other", 0)
    history.on_committed(0, 1)
    history.on_claimed("other", 0, 2, 0)
    claimed(history, "third", 3, 0)


def handling(owner: str, *segments: tuple[float, float]) -> Handling:
    pieces = [Segment(*each) for each in segments]
    return Handling(Tenure(owner, 0), owner, 0, 0, b"", segments[0][0], pieces, End.HANDLED)


def test_events_of_a_shard_must_not_overlap() -> None:
    check_overlaps([handling("one", (0, 1)), handling("other", (1, 2)), handling("one", (2, 3))])
    check_overlaps([handling("one", (0, 1), (4, 5)), handling("other", (1, 3))])
    with pytest.raises(TriggerError, match=r"one handles 0 from 0\.000 to 2\.000, and other handles 0 from 1\.000 on"):
        check_overlaps([handling("other", (1, 3)), handling("one", (0, 2))])


def test_the_log_of_commits_has_owners_in_order() -> None:
    log = [Commit(0, 5, 1, "one"), Commit(0, 7, 1, "one"), Commit(0, 7, 2, "other"), Commit(0, 9, 2, "other")]
    check_commits(log, [Claim(0, 5, 1, "one#1"), Claim(0, 7, 2, "other#1")])
    with pytest.raises(TriggerError, match="its owner was deposed"):
        check_commits([*log, Commit(0, 10, 1, "one")], [])
    for epoch in (2, 3):
        with pytest.raises(TriggerError, match="moves the offset back"):
            check_commits([*log, Commit(0, 8, epoch, "other")], [])
    with pytest.raises(TriggerError, match="have the same epoch"):
        check_commits([*log, Commit(0, 10, 2, "one")], [])
    with pytest.raises(TriggerError, match="is not stored"):
        check_commits(log, [Claim(0, 6, 2, "other#1")])


def test_each_output_is_committed_once_or_its_event_is_a_dead_letter() -> None:
    check_exactly_once({b"a": 1}, {b"b": 1}, [b"a", b"b"])
    with pytest.raises(TriggerError, match="committed twice as output"):
        check_exactly_once({b"a": 2}, {}, [b"a"])
    with pytest.raises(TriggerError, match="as output and as dead letter"):
        check_exactly_once({b"a": 1}, {b"a": 1}, [b"a"])
    with pytest.raises(TriggerError, match="are lost"):
        check_exactly_once({}, {}, [b"a"])
