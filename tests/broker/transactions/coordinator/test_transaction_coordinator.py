from transacting import NAME, P0, TransactionWorld, error_of, producer_of

from tailrace.broker.transactions.common.transaction_status import State


def test_a_producer_begins_adds_partitions_and_commits() -> None:
    world = TransactionWorld()
    producer = producer_of(world.init())
    assert producer == (1000, 0)
    assert error_of(world.add(producer, P0)) is None
    assert world.state is State.ONGOING
    assert error_of(world.end(producer)) is None
    world.write_markers()
    assert world.transaction(NAME).state is State.COMPLETE_COMMIT
