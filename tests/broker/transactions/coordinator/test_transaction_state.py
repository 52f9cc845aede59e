from transacting import P0

from tailrace.broker.transactions.common.transaction_status import State
from tailrace.broker.transactions.coordinator import transaction_state as states


def test_a_stored_state_is_read_as_it_was_written() -> None:
    transaction = states.add_partitions(states.first(7, 60_000, 1), frozenset((P0,)), 2, 2)
    record = states.to_record("orders", transaction)
    assert record.value is not None
    assert states.from_value(record.value) == transaction
    assert transaction.state is State.ONGOING
