"""The file of aborted transactions says what was written, or that it is damaged."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.storage.producers.producer_state import CompletedTransaction
from tailrace.storage.transactions.aborted_transactions import (
    AbortedTransaction,
    aborted_of,
    decode_aborted,
    encode_aborted,
    facts_of,
)

OFFSETS = st.integers(0, 2**62)
TRANSACTIONS = st.lists(st.builds(AbortedTransaction, OFFSETS, OFFSETS, OFFSETS, OFFSETS), max_size=8)


@given(TRANSACTIONS)
def test_what_was_written_is_read(transactions: list[AbortedTransaction]) -> None:
    assert decode_aborted(encode_aborted(transactions)) == transactions


@given(TRANSACTIONS, st.data())
def test_a_damaged_file_is_recognised(transactions: list[AbortedTransaction], data: st.DataObject) -> None:
    content = bytearray(encode_aborted(transactions))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    assert decode_aborted(bytes(content)) is None
    assert decode_aborted(bytes(content[: bit // 8])) is None


def test_only_aborted_transactions_are_listed() -> None:
    completed = [CompletedTransaction(7, 1, 5, True, 6), CompletedTransaction(8, 2, 6, False, 7)]
    assert aborted_of(completed) == [AbortedTransaction(8, 2, 6, 7)]


def test_facts_tell_files_apart() -> None:
    one, other = AbortedTransaction(8, 2, 6, 7), AbortedTransaction(8, 3, 6, 7)
    assert facts_of([]) is None
    facts = facts_of([other, one])
    assert facts is not None
    assert (facts.number, facts.first_offset) == (2, 2)
    assert len({facts_of(each) for each in ([one], [other], [one, other], [other, one])}) == 4
