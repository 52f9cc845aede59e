"""The contents of the store follow from its transactions, whatever the changes are and however they are stored."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.controller.key_value.interface import VALUE_BYTES_MAX, Change, Delete, Entry, Put, StoreCorrupt
from tailrace.controller.key_value.kubernetes.transaction_log import (
    CHANGES_MAX,
    ENCODED_BYTES_MAX,
    Contents,
    Lease,
    Removed,
    Stored,
    Transaction,
    decoded,
    encoded,
    in_parts,
    in_snapshot_parts,
    size_of,
)

KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
CHANGES = st.lists(
    st.one_of(
        st.builds(Put, st.sampled_from("abc"), st.binary(max_size=3), st.integers(0, 6)),
        st.builds(Delete, st.sampled_from("abc"), st.integers(0, 6)),
    ),
    max_size=6,
)


def carried_out(entries: dict[str, int], changes: Sequence[Change], revision: int) -> list[int | None]:
    """Carries out changes one after the other, as a store with a lock would."""
    outcomes: list[int | None] = []
    for change in changes:
        counts = entries.get(change.key, 0) == change.version and change != Delete(change.key, 0)
        if counts:
            revision += 1
            if isinstance(change, Put):
                entries[change.key] = revision
            else:
                del entries[change.key]
        outcomes.append(revision if counts else None)
    return outcomes


@given(st.lists(CHANGES, max_size=6))
def test_each_change_counts_or_loses_as_if_it_came_alone(writes: list[list[Change]]) -> None:
    contents, entries = Contents(), dict[str, int]()
    for changes in writes:
        outcomes, transaction = contents.plan(changes)
        assert outcomes == carried_out(entries, changes, contents.revision)
        assert (transaction is None) == all(outcome is None for outcome in outcomes)
        if transaction is not None:
            contents.apply(transaction)
        assert {entry.key: entry.version for entry in contents.entries("")} == entries


@given(st.lists(CHANGES, max_size=6), st.integers(0, 6))
def test_a_snapshot_and_the_transactions_after_it_give_the_same_contents(
    writes: list[list[Change]], snapshot_at: int
) -> None:
    contents, transactions = Contents(), list[Transaction]()
    restored = Contents()
    for changes in writes:
        _, transaction = contents.plan(changes)
        if transaction is not None:
            contents.apply(transaction)
            transactions.append(transaction)
        if len(transactions) == snapshot_at:
            restored = Contents.restored(contents.number, contents.revision, contents.all())
    for transaction in transactions[restored.number :]:
        restored.apply(transaction)
    assert (restored.number, restored.revision) == (contents.number, contents.revision)
    assert restored.entries("") == contents.entries("")


@given(
    st.one_of(
        st.builds(Removed, KEYS, st.integers(1, 2**60)),
        st.builds(
            Stored,
            st.builds(Entry, KEYS, st.one_of(st.binary(), st.text().map(str.encode)), st.integers(1, 2**60)),
            st.one_of(st.none(), st.builds(Lease, st.just("lease-1"), st.integers(1, 10**6).map(lambda ms: ms / 1000))),
        ),
    )
)
def test_a_change_comes_back_as_it_was_stored(change: Stored | Removed) -> None:
    stored = json.dumps(encoded(change), ensure_ascii=False)
    assert decoded(json.loads(stored)) == change
    value = change.entry.value if isinstance(change, Stored) else b""
    key = change.entry.key if isinstance(change, Stored) else change.key
    assert len(stored.encode()) <= size_of(key, value)


def test_short_readable_values_are_stored_as_text() -> None:
    assert encoded(Stored(Entry("a", b'{"rack": "b"}', 1)))["text"] == '{"rack": "b"}'
    for value in (b"<b>", b"\0", b"\xff", b"x" * 5000):
        assert "text" not in encoded(Stored(Entry("a", value, 1)))


def test_a_transaction_that_does_not_follow_is_refused() -> None:
    with pytest.raises(StoreCorrupt, match="transaction 3 follows transaction 0"):
        Contents().apply(Transaction(3, ()))


@pytest.mark.parametrize("document", [{}, {"key": "a", "version": "x"}, {"key": "a", "version": 1, "base64": "?"}])
def test_a_change_of_another_program_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(StoreCorrupt, match="that no SC has written"):
        decoded(document)


def test_parts_fit_into_objects_and_lose_nothing() -> None:
    large: list[Change] = [Put(str(number), bytes(VALUE_BYTES_MAX // 3), 0) for number in range(7)]
    small: list[Change] = [Put(f"s{number}", b"", 0) for number in range(CHANGES_MAX + 1)]
    parts = list(in_parts(large + small + [Put("whole", bytes(VALUE_BYTES_MAX), 0)]))
    assert [change for part in parts for change in part] == large + small + [Put("whole", bytes(VALUE_BYTES_MAX), 0)]
    for part in parts:
        stored = [encoded(Stored(Entry(change.key, change.value, 1))) for change in part if isinstance(change, Put)]
        assert len(json.dumps(stored)) <= ENCODED_BYTES_MAX
        assert len(part) <= CHANGES_MAX
    entries = [Stored(Entry(str(number), bytes(VALUE_BYTES_MAX // 2), 1)) for number in range(5)]
    assert [len(part) for part in in_snapshot_parts(entries)] == [2, 2, 1]
