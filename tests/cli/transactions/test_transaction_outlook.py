import pytest

from tailrace.cli.transactions.transaction_outlook import advice_on_hanging, named, outlook
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.transaction_facts import Holder, OpenTransaction, Transaction

BEGAN_MS = 1_700_000_000_000
A, B, C = (Partition("orders", number) for number in range(3))


def transaction(state: str, *partitions: Partition) -> Transaction:
    return Transaction("billing-1", state, 9, 3, 60_000, BEGAN_MS, partitions, 1)


@pytest.mark.parametrize(
    ("state", "seconds", "expected"),
    [
        ("Ongoing", 18, "It times out at 2023-11-14T22:14:20.000Z, in 42 s, and is aborted then, unless its"),
        ("Ongoing", 61, "It timed out at 2023-11-14T22:14:20.000Z, and its coordinator is about to abort it."),
        ("Empty", 0, "It has no open transaction."),
        ("CompleteAbort", 0, "It has no open transaction. Its last one was aborted."),
        ("PrepareCommit", 0, "It is being committed: markers wait for SPU 2 (orders/0, orders/1) and for a leader,"),
        ("PrepareAbort", 0, "It is being aborted: markers wait for SPU 2 "),
    ],
)
def test_what_happens_next_depends_on_the_state(state: str, seconds: int, expected: str) -> None:
    leaders = {A: 2, B: 2, C: RefusedError("no leader")}
    assert outlook(transaction(state, A, B, C), leaders, BEGAN_MS + 1000 * seconds).startswith(expected)


def test_an_ending_transaction_without_missing_markers() -> None:
    assert outlook(transaction("PrepareCommit"), {}, BEGAN_MS) == "It is being committed: all markers are written."


def test_partitions_without_leaders() -> None:
    text = outlook(transaction("PrepareCommit", A, B), {}, BEGAN_MS)
    assert text.endswith("markers wait for leaders, which they do not have (orders/0, orders/1).")


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (None, "no coordinator knows its producer"),
        (transaction("Ongoing", B), "the open transaction of billing-1 does not contain orders/0"),
        (transaction("CompleteCommit"), "its transactional id, billing-1, has no transaction there any more"),
    ],
)
def test_a_hanging_transaction_is_ended_with_a_command(known: Transaction | None, why: str) -> None:
    holder = Holder(OpenTransaction(A, 1, 9, 3, 0, 17, BEGAN_MS), known)
    assert holder.is_hanging
    assert advice_on_hanging(holder) == (
        f"It hangs: {why}, so nothing will end it. "
        "Abort it with `tailrace transaction abort orders/0 --start-offset 17`."
    )


def test_only_the_first_partitions_are_named() -> None:
    assert named([A, B]) == "orders/0, orders/1"
    assert named([Partition("t", number) for number in range(12)]).endswith("t/9 and 2 more")
