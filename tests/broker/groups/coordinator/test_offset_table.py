"""Tests of offsets that transactions commit, and of what deletes them."""

import pytest
from committing import commit, delete, fetch
from transactional_groups import TransactionalGroupWorld, commit_in_transaction

from tailrace.broker.groups.offsets.pending_offsets import PendingOffset
from tailrace.protocol.error_codes import ErrorCode

ORDERS, PAYMENTS = 7001, 7002


@pytest.fixture
def world() -> TransactionalGroupWorld:
    world = TransactionalGroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    world.put_topic("orders", 4, ORDERS)
    world.put_topic("payments", 2, PAYMENTS)
    world.restart()
    return world


def pending(world: TransactionalGroupWorld, group: str = "g") -> set[tuple[int, str, int, int | None]]:
    return {
        (each.producer_id, each.topic, each.partition, None if each.committed is None else each.committed.offset)
        for each in world.coordinator.offsets.pending.of_group(group)
    }


@pytest.mark.parametrize("restarts", [False, True])
def test_offsets_take_effect_when_their_transaction_commits(world: TransactionalGroupWorld, restarts: bool) -> None:
    commit(world, "g", {("orders", 0): 1})
    commit_in_transaction(world, "g", {("orders", 0): 5, ("payments", 1): 6})
    if restarts:
        world.restart()
    assert fetch(world, "g") == {("orders", 0): 1}
    assert pending(world) == {(7, "orders", 0, 5), (7, "payments", 1, 6)}
    world.end(7, is_commit=True)
    assert fetch(world, "g") == {("orders", 0): 5, ("payments", 1): 6}
    assert not pending(world)
    assert fetch(world.reader(), "g") == fetch(world, "g")


@pytest.mark.parametrize("restarts", [False, True])
def test_offsets_are_dropped_when_their_transaction_aborts(world: TransactionalGroupWorld, restarts: bool) -> None:
    commit(world, "g", {("orders", 0): 1})
    commit_in_transaction(world, "g", {("orders", 0): 5})
    if restarts:
        world.restart()
    world.end(7, is_commit=False)
    assert fetch(world, "g") == fetch(world.reader(), "g") == {("orders", 0): 1}
    assert not pending(world)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_last_commit_wins_whatever_its_kind(world: TransactionalGroupWorld, restarts: bool) -> None:
    commit_in_transaction(world, "g", {("orders", 0): 5, ("orders", 1): 5})
    commit(world, "g", {("orders", 0): 3})
    if restarts:
        world.restart()
    assert pending(world) == {(7, "orders", 0, None), (7, "orders", 1, 5)}
    world.end(7, is_commit=True)
    assert fetch(world, "g") == fetch(world.reader(), "g") == {("orders", 0): 3, ("orders", 1): 5}


@pytest.mark.parametrize("restarts", [False, True])
def test_two_transactions_of_one_partition_take_effect_in_the_order_of_the_log(
    world: TransactionalGroupWorld, restarts: bool
) -> None:
    commit_in_transaction(world, "g", {("orders", 0): 5}, 7)
    commit_in_transaction(world, "g", {("orders", 0): 6}, 8)
    if restarts:
        world.restart()
    world.end(8, is_commit=True)
    world.end(7, is_commit=True)
    assert fetch(world, "g") == fetch(world.reader(), "g") == {("orders", 0): 6}


def test_the_record_of_an_offset_in_a_transaction(world: TransactionalGroupWorld) -> None:
    commit_in_transaction(world, "g", {("orders", 0): 5}, metadata="note", leader_epoch=4)
    (found,) = world.coordinator.offsets.pending.of_group("g")
    assert isinstance(found, PendingOffset) and found.committed is not None
    assert (found.committed.offset, found.committed.metadata, found.committed.leader_epoch) == (5, "note", 4)
    assert found.committed.committed_ms == world.now_ms
    assert found.committed.topic_id == world.cluster.topics["orders"].id
    (record,) = world.log
    assert record.value.expire_timestamp == -1


@pytest.mark.parametrize("restarts", [False, True])
def test_a_group_may_have_pending_offsets_alone(world: TransactionalGroupWorld, restarts: bool) -> None:
    commit_in_transaction(world, "g", {("orders", 0): 5})
    if restarts:
        world.restart()
    group = world.coordinator.groups["g"]
    assert (group.state, group.protocol_type) == ("Empty", "")
    assert fetch(world, "g") == {}


def test_a_deleted_offset_does_not_come_back_with_the_marker(world: TransactionalGroupWorld) -> None:
    commit(world, "g", {("orders", 0): 1})
    commit_in_transaction(world, "g", {("orders", 0): 5, ("orders", 1): 6, ("orders", 2): 7})
    places = [("orders", 0), ("orders", 1), ("orders", 3)]
    records = len(world.log)
    assert set(delete(world, "g", places).values()) == {ErrorCode.NONE}
    assert len(world.log) == records + 2, "there is no tombstone of a partition without offset"
    world.end(7, is_commit=True)
    assert fetch(world, "g") == fetch(world.reader(), "g") == {("orders", 2): 7}


def test_pending_offsets_are_deleted_with_their_group(world: TransactionalGroupWorld) -> None:
    commit(world, "g", {("orders", 0): 1})
    commit_in_transaction(world, "g", {("orders", 0): 5, ("orders", 1): 6})
    commit_in_transaction(world, "h", {("orders", 1): 7})
    assert world.ask(lambda coordinator, moment, waiter: coordinator.delete("g")).error is None
    assert "g" not in world.coordinator.groups and not pending(world)
    deleted = [
        record.key.partition for record in world.log if record.value is None and hasattr(record.key, "partition")
    ]
    assert sorted(deleted) == [0, 1], "there is one tombstone for each partition"
    world.end(7, is_commit=True)
    assert fetch(world, "g") == fetch(world.reader(), "g") == {}
    assert "g" not in world.reader().coordinator.groups
    assert fetch(world, "h") == {("orders", 1): 7}
