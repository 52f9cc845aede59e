from transaction_world import P0, P1, TransactionWorld

from tailrace.broker.transactions.common.marker_work import MarkerWork
from tailrace.broker.transactions.common.transaction_status import State


def test_markers_are_sent_after_the_decision_is_committed() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, P1)
    world.commits = False
    ended = world.end(producer)
    assert ended.is_waiting
    assert world.markers == []
    world.commit()
    assert not ended.is_waiting
    assert world.markers == [MarkerWork("orders", *producer, True, 1, 0, frozenset((P0, P1)))]


def test_a_transaction_is_complete_when_all_markers_are_written() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, P1)
    world.end(producer, commit=False)
    (work,) = world.markers
    world.report(work, [P0])
    assert world.state is State.PREPARE_ABORT
    world.report(work, [P0])
    assert world.state is State.PREPARE_ABORT
    world.report(work, [P1])
    assert world.state is State.COMPLETE_ABORT


def test_markers_of_an_earlier_transaction_complete_nothing() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add_v2(producer, P0)
    world.end_v2(producer)
    old = world.markers[0]
    world.write_markers()
    producer_after = producer[0], producer[1] + 1
    world.add_v2(producer_after, P0)
    world.end_v2(producer_after)
    world.report(old, [P0])
    assert world.state is State.PREPARE_COMMIT


def test_alarms_of_earlier_transactions_do_not_pile_up() -> None:
    world = TransactionWorld()
    producer = world.begin()
    for _ in range(500):
        world.add(producer, P0)
        world.end(producer)
        world.write_markers()
    assert len(world.coordinator._table._alarms) < 100
