from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.coordination.pending_records import PendingRecord, PendingRecords


def records() -> "PendingRecords[str, int]":
    return PendingRecords()


def test_a_commit_gives_the_last_value_of_each_key() -> None:
    pending = records()
    for key, value in [("a", 1), ("b", 2), ("a", 3)]:
        pending.put(7, key, value)
    assert len(pending) == 2 and "a" in pending
    assert sorted(pending.end(7, is_commit=True)) == [("a", 3), ("b", 2)]
    assert not len(pending) and "a" not in pending


def test_an_abort_drops_the_values() -> None:
    pending = records()
    pending.put(7, "a", 1)
    assert pending.end(7, is_commit=False) == [("a", None)]
    assert pending.end(7, is_commit=True) == []


def test_transactions_are_independent() -> None:
    pending = records()
    pending.put(7, "a", 1)
    pending.put(8, "a", 2)
    assert pending.end(7, is_commit=False) == [("a", None)]
    assert "a" in pending
    assert pending.end(8, is_commit=True) == [("a", 2)]


def test_a_later_record_outside_of_transactions_wins() -> None:
    pending = records()
    pending.put(7, "a", 1)
    pending.supersede("a")
    assert "a" in pending, "the transaction is still open"
    pending.put(8, "a", 2)
    assert pending.end(7, is_commit=True) == [("a", None)]
    assert pending.end(8, is_commit=True) == [("a", 2)]


def test_a_later_record_of_a_transaction_that_committed_first_wins() -> None:
    pending = records()
    pending.put(7, "a", 1)
    pending.put(8, "a", 2)
    assert pending.end(8, is_commit=True) == [("a", 2)]
    assert pending.end(7, is_commit=True) == [("a", None)]


def test_an_aborted_record_supersedes_nothing() -> None:
    pending = records()
    pending.put(7, "a", 1)
    pending.put(8, "a", 2)
    pending.end(8, is_commit=False)
    assert pending.end(7, is_commit=True) == [("a", 1)]


def test_a_deletion_forgets_pending_records() -> None:
    pending = records()
    pending.put(7, "a", 1)
    pending.put(7, "b", 2)
    pending.put(8, "a", 3)
    assert pending.discard("a") and not pending.discard("a")
    assert "a" not in pending and len(pending) == 1
    assert pending.end(8, is_commit=True) == []
    assert pending.end(7, is_commit=True) == [("b", 2)]


def test_records_are_listed_in_the_order_of_the_log() -> None:
    pending = records()
    pending.put(8, "b", 1)
    pending.put(7, "a", 2)
    pending.put(8, "c", 3)
    pending.put(8, "b", 4)
    pending.supersede("c")
    assert list(pending) == [PendingRecord(7, "a", 2), PendingRecord(8, "c", None), PendingRecord(8, "b", 4)]
    assert pending.of_key("b") == [PendingRecord(8, "b", 4)]


PUT, PLAIN, DELETE, COMMIT, ABORT = range(5)
steps = st.lists(st.tuples(st.integers(PUT, ABORT), st.integers(1, 3), st.sampled_from("abc")), max_size=30)


@given(steps)
def test_the_last_record_that_is_not_aborted_takes_effect(steps: list[tuple[int, int, str]]) -> None:
    pending = records()
    effective: dict[str, int] = {}
    log: list[tuple[int, int | None, str]] = []
    """Number, producer or None, and key of each record."""
    ended: dict[int, bool] = {}
    """The records of ended transactions: whether they are committed."""
    for number, (step, producer, key) in enumerate(steps):
        if step == PUT:
            pending.put(producer, key, number)
            log.append((number, producer, key))
        elif step == PLAIN:
            effective[key] = number
            pending.supersede(key)
            log.append((number, None, key))
            ended[number] = True
        elif step == DELETE:
            effective.pop(key, None)
            pending.discard(key)
            log = [each for each in log if each[2] != key]
        else:
            is_commit = step == COMMIT
            for ended_key, value in pending.end(producer, is_commit=is_commit):
                if value is not None:
                    effective[ended_key] = value
            for each, owner, _ in log:
                if owner == producer and each not in ended:
                    ended[each] = is_commit
        expected = {}
        for each, _, each_key in log:
            if ended.get(each):
                expected[each_key] = each
        assert effective == expected
        still_open = {(owner, each_key) for each, owner, each_key in log if each not in ended}
        assert {(each.producer_id, each.key) for each in pending} == still_open
        assert len(pending) == len(still_open)
