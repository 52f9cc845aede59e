"""Tests of fetches that require stable offsets, and of others."""

import pytest
from committing import ask_fetch, commit, delete, fetch
from grouping import GroupWorld
from transactional_groups import TransactionalGroupWorld, ask_stable, commit_in_transaction, stable

from tailrace.broker.groups.coordinator import offset_fetches
from tailrace.broker.groups.coordinator.offset_fetches import HELD_SECONDS_MAX
from tailrace.protocol.error_codes import ErrorCode

ORDERS, PAYMENTS = 7001, 7002
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def world() -> TransactionalGroupWorld:
    world = TransactionalGroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    world.put_topic("orders", 4, ORDERS)
    world.put_topic("payments", 2, PAYMENTS)
    world.restart()
    return world


def test_what_was_never_committed_is_minus_one_and_no_error(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5})
    asked = [("orders", 0), ("orders", 1), ("orders", 99), ("nothing", 0)]
    assert fetch(world, "g", asked) == {("orders", 0): 5, ("orders", 1): -1, ("orders", 99): -1, ("nothing", 0): -1}
    assert fetch(world, "no-group", [("orders", 0)]) == {("orders", 0): -1}
    assert fetch(world, "no-group") == {}


def test_a_group_may_refuse_a_fetch(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5})
    assert ask_fetch(world, "g", [("orders", 0)], member="anybody", epoch=3).reply.topics, "classic groups do not"


# stable offsets


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("is_commit", "offset"), [(True, 5), (False, 1)])
def test_a_fetch_of_stable_offsets_waits_for_the_end_of_the_transaction(
    world: TransactionalGroupWorld, is_commit: bool, offset: int, restarts: bool
) -> None:
    commit(world, "g", {("orders", 0): 1})
    commit_in_transaction(world, "g", {("orders", 0): 5})
    if restarts:
        world.restart()
    one, everything = ask_stable(world, "g", ("orders", 0)), ask_stable(world, "g")
    assert one.is_waiting and everything.is_waiting
    assert fetch(world, "g", [("orders", 0)]) == {("orders", 0): 1}, "other fetches do not wait"
    world.end(7, is_commit=is_commit)
    assert stable(one) == stable(everything) == {("orders", 0): offset}


def test_a_fetch_waits_for_all_transactions_of_its_partitions(world: TransactionalGroupWorld) -> None:
    commit_in_transaction(world, "g", {("orders", 0): 5}, 7)
    commit_in_transaction(world, "g", {("orders", 1): 6, ("orders", 0): 6}, 8)
    asked = ask_stable(world, "g", ("orders", 0), ("orders", 1))
    world.end(9, is_commit=True)
    world.end(7, is_commit=True)
    assert asked.is_waiting
    world.end(8, is_commit=False)
    assert stable(asked) == {("orders", 0): 5, ("orders", 1): -1}


def test_a_fetch_of_other_partitions_does_not_wait(world: TransactionalGroupWorld) -> None:
    commit_in_transaction(world, "g", {("orders", 0): 5})
    assert stable(ask_stable(world, "g", ("orders", 1))) == {("orders", 1): -1}
    assert stable(ask_stable(world, "h", ("orders", 0))) == {("orders", 0): -1}
    assert stable(ask_stable(world, "g")) == {}, "nothing is committed"


def test_after_a_while_the_unstable_partitions_are_refused(world: TransactionalGroupWorld) -> None:
    commit(world, "g", {("orders", 0): 1, ("orders", 1): 2})
    commit_in_transaction(world, "g", {("orders", 0): 5})
    first = ask_stable(world, "g", ("orders", 0), ("orders", 1))
    world.pass_time(HELD_SECONDS_MAX / 2)
    second = ask_stable(world, "g")
    world.pass_time(HELD_SECONDS_MAX / 2)
    assert second.is_waiting
    assert stable(first) == {("orders", 0): UNSTABLE, ("orders", 1): 2}
    world.end(7, is_commit=True)
    assert stable(second) == {("orders", 0): 5, ("orders", 1): 2}


def test_a_fetch_whose_pending_offsets_are_deleted_waits_no_longer(world: TransactionalGroupWorld) -> None:
    commit_in_transaction(world, "g", {("orders", 0): 5, ("orders", 1): 6})
    first, second = ask_stable(world, "g", ("orders", 0)), ask_stable(world, "g", ("orders", 1))
    delete(world, "g", [("orders", 0)])
    assert stable(first) == {("orders", 0): -1} and second.is_waiting
    world.ask(lambda coordinator, moment, waiter: coordinator.delete("g"))
    assert stable(second) == {("orders", 1): -1}


def test_only_so_many_fetches_wait(world: TransactionalGroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_fetches, "HELD_FETCHES_MAX", 2)
    commit_in_transaction(world, "g", {("orders", 0): 5})
    waiting = [ask_stable(world, "g", ("orders", 0)) for _ in range(2)]
    assert stable(ask_stable(world, "g", ("orders", 0))) == {("orders", 0): UNSTABLE}
    assert all(each.is_waiting for each in waiting)


def test_fetches_that_wait_are_refused_when_the_coordinator_ends(world: TransactionalGroupWorld) -> None:
    commit_in_transaction(world, "g", {("orders", 0): 5})
    asked = ask_stable(world, "g", ("orders", 0))
    world.restart()
    assert asked.error is not None and asked.error.code is ErrorCode.NOT_COORDINATOR
