"""The objects of the store come back as they were stored, and those of other programs are refused."""

from typing import Any

import pytest

from tailrace.controller.key_value.interface import Entry, StoreCorrupt
from tailrace.controller.key_value.kubernetes.store_objects import (
    Head,
    Names,
    SnapshotPlace,
    head_of,
    head_spec,
    snapshot_spec,
    stored_in,
    transaction_of,
    transaction_spec,
)
from tailrace.controller.key_value.kubernetes.transaction_log import Removed, Stored, Transaction

TRANSACTION = Transaction(7, (Stored(Entry("a", b"1", 9)), Removed("b", 10)))
NAMES = Names("my-cluster")


def test_a_head_comes_back_with_its_version() -> None:
    head = Head(TRANSACTION, SnapshotPlace(5, 6, ("one", "two")))
    document = {"spec": head_spec(head), "metadata": {"resourceVersion": "77"}}
    assert head_of(document) == Head(head.transaction, head.snapshot, "77")


def test_transactions_and_snapshots_come_back() -> None:
    assert transaction_of({"spec": transaction_spec(TRANSACTION)}) == TRANSACTION
    stored = [Stored(Entry("a", b"1", 9)), Stored(Entry("b", b"2", 3))]
    assert stored_in({"spec": snapshot_spec(5, stored)}) == stored


def test_a_name_tells_the_number() -> None:
    assert NAMES.number_of(NAMES.transaction(12)) == 12
    assert NAMES.number_of(NAMES.snapshot_part(340, "ab12", 2)) == 340


@pytest.mark.parametrize("document", [{}, {"spec": {}}, {"spec": {"number": "x", "changes": [], "snapshot": {}}}])
def test_an_object_of_another_program_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(StoreCorrupt, match="is damaged"):
        head_of(document)
    with pytest.raises(StoreCorrupt, match="is damaged"):
        transaction_of(document)
