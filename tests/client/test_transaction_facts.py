from tailrace.client.log_facts import Partition
from tailrace.client.transaction_facts import Holder, OpenTransaction, Transaction, TransactionClientName, holders

A, B = Partition("orders", 0), Partition("orders", 1)


def opened(partition: Partition, producer_id: int = 9, first_offset: int = 0) -> OpenTransaction:
    return OpenTransaction(partition, 1, producer_id, 3, 0, first_offset, 0)


def transaction(state: str, *partitions: Partition, name: str = "billing-1") -> Transaction:
    return Transaction(name, state, 9, 3, 60_000, 1000, partitions, 1)


def test_a_transaction_hangs_if_its_coordinator_will_not_end_it_in_this_partition() -> None:
    assert not Holder(opened(A), transaction("Ongoing", A)).is_hanging
    assert not Holder(opened(A), transaction("PrepareAbort", A, B)).is_hanging
    assert Holder(opened(A), transaction("Ongoing", B)).is_hanging
    assert Holder(opened(A), transaction("CompleteCommit", A)).is_hanging
    assert Holder(opened(A), None).is_hanging


def test_the_holder_of_a_transaction_is_the_id_that_will_end_it() -> None:
    gone, ongoing = transaction("Empty", name="old"), transaction("Ongoing", A, name="new")
    found = holders([opened(B), opened(A, first_offset=7), opened(A, producer_id=5)], [gone, ongoing])
    assert [(each.open.partition, each.open.first_offset) for each in found] == [(A, 0), (A, 7), (B, 0)]
    assert [each.transaction and each.transaction.id for each in found] == [None, "new", "old"]
    assert [each.is_hanging for each in found] == [True, False, True]


def test_only_an_open_transaction_times_out() -> None:
    assert transaction("Ongoing").deadline_ms == 61_000
    assert transaction("PrepareCommit").deadline_ms is None


def test_a_client_is_named_with_its_host() -> None:
    assert TransactionClientName("app", "/10.0.0.7", 0, 0, 0).text == "app at 10.0.0.7"
    assert TransactionClientName("", "/10.0.0.7", 0, 0, 0).text == "without a client.id at 10.0.0.7"
    assert TransactionClientName(None, None, 0, 0, 0).text == ""
