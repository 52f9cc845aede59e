"""Requests stay within the limits of etcd, and fields that its responses leave out are understood."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.controller.key_value.etcd.etcd_messages import (
    OPERATIONS_MAX,
    TRANSACTION_BYTES_MAX,
    KeySpace,
    in_transactions,
    revision_of,
    written,
)
from tailrace.controller.key_value.interface import (
    NO_VERSION,
    VALUE_BYTES_MAX,
    Change,
    Delete,
    Entry,
    EntryDeleted,
    EntryPut,
    Put,
)

SPACE = KeySpace(b"/tailrace/")
KEY = "L3RhaWxyYWNlL2E="  # /tailrace/a
changes = st.lists(
    st.one_of(
        st.builds(
            Put, st.sampled_from("abcdef"), st.sampled_from([b"", bytes(VALUE_BYTES_MAX // 3)]), st.just(NO_VERSION)
        ),
        st.builds(Delete, st.sampled_from("abcdef"), st.just(1)),
    ),
    max_size=30,
)


@given(changes)
def test_transactions_hold_all_changes_in_order_and_each_key_once(wanted: list[Change]) -> None:
    parts = list(in_transactions(wanted))
    assert [change for part in parts for change in part] == wanted
    for part in parts:
        keys = [change.key for change in part]
        assert 0 < len(keys) == len(set(keys)) <= OPERATIONS_MAX
        assert sum(len(change.value) for change in part if isinstance(change, Put)) <= TRANSACTION_BYTES_MAX


def test_many_changes_make_few_transactions() -> None:
    parts = in_transactions([Delete(str(number), 1) for number in range(2 * OPERATIONS_MAX + 1)])
    assert [len(part) for part in parts] == [OPERATIONS_MAX, OPERATIONS_MAX, 1]


def test_a_largest_value_goes_alone_or_with_little() -> None:
    large = Put("a", bytes(VALUE_BYTES_MAX), NO_VERSION)
    assert [len(part) for part in in_transactions([large, Put("b", b"", 0), Put("c", large.value, 0)])] == [2, 1]


def test_empty_values_and_plain_puts_are_left_out_of_answers() -> None:
    found = {"key": KEY, "mod_revision": "9007199254740993", "create_revision": "1", "version": "1"}
    entry = Entry("a", b"", 9007199254740993)
    assert SPACE.entry(found) == entry
    assert SPACE.event({"kv": found}) == EntryPut(entry)
    assert SPACE.event({"type": "DELETE", "kv": {"key": KEY, "mod_revision": "8"}}) == EntryDeleted("a", 8)


def test_a_change_that_lost_says_nothing_of_success() -> None:
    answer = {
        "header": {"revision": "12"},
        "succeeded": True,
        "responses": [{"response_txn": {"succeeded": True}}, {"response_txn": {}}],
    }
    assert revision_of(answer) == 12
    assert written(answer, [Put("a", b"", 0), Put("b", b"", 0)]) == [12, None]
