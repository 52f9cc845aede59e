import math
from uuid import UUID

import pytest
from classic_groups import GROUP, Client, error_of, stable_group
from committing import commit, delete, fetch
from grouping import GroupWorld
from transactional_groups import TransactionalGroupWorld, commit_in_transaction

from tailrace.broker.groups.coordinator.offset_removal import CHECKED_PER_TURN
from tailrace.protocol.error_codes import ErrorCode

CHECK_SECONDS = 600
DAY_SECONDS = 24 * 3600
ORDERS, PAYMENTS, NEW_ORDERS = 7001, 7002, 7003


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    world.put_topic("orders", 3 * CHECKED_PER_TURN, ORDERS)
    world.put_topic("payments", 2, PAYMENTS)
    world.restart()
    return world


def gone(world: GroupWorld, number: int, name: str) -> None:
    world.coordinator.offsets.removal.on_topic_deleted(UUID(int=number), name)
    world.pass_time(0)


def test_it_is_looked_for_as_often_as_the_setting_says(world: GroupWorld) -> None:
    removal = world.coordinator.offsets.removal
    assert removal.deadline == world.now + CHECK_SECONDS
    world.pass_time(CHECK_SECONDS)
    assert removal.deadline == world.now + CHECK_SECONDS
    world.use(offsets_check_interval_ms=5000)
    world.pass_time(CHECK_SECONDS)
    assert removal.deadline == world.now + 5


def test_offsets_go_when_they_had_their_time_and_their_group_with_the_last(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5})
    world.pass_time(3 * DAY_SECONDS)
    commit(world, "g", {("orders", 1): 6})
    world.pass_time(4 * DAY_SECONDS - 2 * CHECK_SECONDS)
    assert fetch(world, "g") == {("orders", 0): 5, ("orders", 1): 6}
    world.pass_time(3 * CHECK_SECONDS)
    assert fetch(world, "g") == {("orders", 1): 6} and "g" in world.coordinator.groups
    world.pass_time(3 * DAY_SECONDS)
    assert fetch(world, "g") == {} and not world.coordinator.groups
    world.compact()
    assert all(record.value is None for record in world.log)
    world.restart()
    assert not world.coordinator.groups


def test_a_commit_begins_the_time_anew(world: GroupWorld) -> None:
    for _ in range(4):
        commit(world, "g", {("orders", 0): 5})
        world.pass_time(6 * DAY_SECONDS)
    assert fetch(world, "g") == {("orders", 0): 5}


def test_the_time_goes_on_while_coordinators_change(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5})
    for _ in range(8):
        world.pass_time(DAY_SECONDS)
        world.restart()
    world.pass_time(CHECK_SECONDS)
    assert fetch(world, "g") == {}


def test_members_keep_the_offsets_of_what_they_read(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1, session_seconds=1800)
    group = client.group_id
    commit(world, group, {("orders", 0): 5, ("payments", 0): 6}, generation=client.generation, member=client.member_id)
    for _ in range(8 * 24 * 4):
        world.pass_time(900)
        client.heartbeat()
    assert fetch(world, group) == {("orders", 0): 5}
    client.leave()
    world.pass_time(6 * DAY_SECONDS)
    assert fetch(world, group) == {("orders", 0): 5}
    world.pass_time(DAY_SECONDS + CHECK_SECONDS)
    assert fetch(world, group) == {} and not world.coordinator.groups


def test_an_old_client_may_want_its_offsets_kept_for_less(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5}, version=2, retention_ms=1000)
    commit(world, "g", {("orders", 1): 6})
    world.pass_time(CHECK_SECONDS)
    assert fetch(world, "g") == {("orders", 1): 6}


def test_the_setting_is_each_groups_own_at_the_time(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5})
    world.use(offsets_retention_ms=60_000)
    world.pass_time(CHECK_SECONDS)
    assert fetch(world, "g") == {}


def test_a_group_without_offsets_and_members_goes(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1, session_seconds=1800)
    world.pass_time(CHECK_SECONDS)
    assert client.group_id in world.coordinator.groups
    client.leave()
    world.pass_time(CHECK_SECONDS)
    assert not world.coordinator.groups
    world.restart()
    assert not world.coordinator.groups


def test_a_group_waits_for_a_client_that_has_been_given_a_member_id(world: GroupWorld) -> None:
    world.use(offsets_check_interval_ms=1000)
    world.restart()
    client = Client(world)
    client.member_id = client.ask_to_join().reply.member_id
    world.pass_time(1)
    assert error_of(client.ask_to_join()) == ErrorCode.NONE


def test_a_group_goes_if_the_client_does_not_come_back(world: GroupWorld) -> None:
    Client(world, session_seconds=2 * CHECK_SECONDS).ask_to_join()
    world.pass_time(CHECK_SECONDS)
    assert GROUP in world.coordinator.groups
    world.pass_time(2 * CHECK_SECONDS)
    assert not world.coordinator.groups


# many offsets


def test_others_have_their_turn_while_many_go(world: GroupWorld) -> None:
    many = 2 * CHECKED_PER_TURN + 10
    commit(world, "g", {("orders", partition): 1 for partition in range(many)})
    world.now_ms += 8 * DAY_SECONDS * 1000
    removal = world.coordinator.offsets.removal
    world.now = removal.deadline
    turns = []
    while removal.deadline <= world.now:
        assert world.coordinator.deadline <= world.now
        world.coordinator.on_deadline(world.moment)
        turns.append(len(world.coordinator.output.take().records))
        if len(turns) == 1:  # meanwhile a client commits an offset that is still to be checked
            commit(world, "g", {("orders", many - 1): 7})
    assert max(turns) <= CHECKED_PER_TURN and sum(turns) == many - 1
    assert fetch(world, "g") == {("orders", many - 1): 7}


def test_what_happens_to_the_group_meanwhile_counts(world: GroupWorld) -> None:
    commit(world, "g", {("orders", partition): 1 for partition in range(2 * CHECKED_PER_TURN)})
    world.now_ms += 8 * DAY_SECONDS * 1000
    world.now = world.coordinator.deadline
    world.coordinator.on_deadline(world.moment)
    world.ask(lambda coordinator, moment, waiter: coordinator.delete("g"))
    commit(world, "g", {("payments", 0): 9})
    world.pass_time(0)
    assert fetch(world, "g") == {("payments", 0): 9}


def test_a_member_that_joins_meanwhile_keeps_the_remaining_offsets(world: GroupWorld) -> None:
    commit(world, GROUP, {("orders", partition): 1 for partition in range(2 * CHECKED_PER_TURN)})
    world.now_ms += 8 * DAY_SECONDS * 1000
    world.now = world.coordinator.deadline
    world.coordinator.on_deadline(world.moment)
    stable_group(world, 1)
    world.pass_time(0)
    assert len(fetch(world, GROUP)) == CHECKED_PER_TURN


# deleted topics


def test_the_offsets_of_a_deleted_topic_go(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5, ("orders", 1): 6, ("payments", 0): 7})
    commit(world, "h", {("orders", 0): 8}, version=2, retention_ms=10**9)
    gone(world, ORDERS, "orders")
    for _ in range(2):
        assert fetch(world, "g") == {("payments", 0): 7} and fetch(world, "h") == {}
        world.restart()
    assert world.coordinator.offsets.removal.deadline < math.inf


def test_those_of_the_next_topic_of_its_name_stay(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5, ("orders", 1): 6})
    world.put_topic("orders", 3, NEW_ORDERS)
    commit(world, "g", {("orders", 1): 1})
    gone(world, ORDERS, "orders")
    assert fetch(world, "g") == {("orders", 1): 1}
    assert delete(world, "g", [("orders", 0)]) == {("orders", 0): 0}
    gone(world, NEW_ORDERS, "orders")
    assert fetch(world, "g") == {}


# offsets of open transactions


@pytest.fixture
def transactional() -> TransactionalGroupWorld:
    world = TransactionalGroupWorld()
    world.put_topic("orders", 4, ORDERS)
    world.put_topic("payments", 2, PAYMENTS)
    world.restart()
    return world


@pytest.mark.parametrize("restarts", [False, True])
def test_nothing_expires_while_a_transaction_is_about_to_replace_it(
    transactional: TransactionalGroupWorld, restarts: bool
) -> None:
    world = transactional
    commit(world, "g", {("orders", 0): 1, ("orders", 1): 2})
    commit_in_transaction(world, "g", {("orders", 0): 5})
    commit_in_transaction(world, "h", {("orders", 0): 6})
    if restarts:
        world.restart()
    world.pass_time(8 * DAY_SECONDS)
    assert fetch(world, "g") == {("orders", 0): 1}
    assert set(world.coordinator.groups) == {"g", "h"}
    world.end(7, is_commit=False)
    world.pass_time(CHECK_SECONDS)
    assert fetch(world, "g") == {} and not world.coordinator.groups


def test_a_committed_offset_expires_after_the_commit_of_its_record(transactional: TransactionalGroupWorld) -> None:
    world = transactional
    commit_in_transaction(world, "g", {("orders", 0): 5})
    world.pass_time(4 * DAY_SECONDS)
    world.end(7, is_commit=True)
    world.pass_time(3 * DAY_SECONDS - 2 * CHECK_SECONDS)
    assert fetch(world, "g") == {("orders", 0): 5}
    world.pass_time(3 * CHECK_SECONDS)
    assert fetch(world, "g") == {}


def test_pending_offsets_go_with_their_topic(transactional: TransactionalGroupWorld) -> None:
    world = transactional
    commit(world, "g", {("orders", 0): 1})
    commit_in_transaction(world, "g", {("orders", 0): 5, ("orders", 1): 6, ("payments", 0): 7})
    gone(world, ORDERS, "orders")
    for each in (world, world.reader()):
        assert each.coordinator.offsets.pending.partitions("g") == [("payments", 0)]
        each.end(7, is_commit=True)
        assert fetch(each, "g") == {("payments", 0): 7}


def test_pending_offsets_of_a_new_topic_of_the_same_name_stay(transactional: TransactionalGroupWorld) -> None:
    world = transactional
    commit_in_transaction(world, "g", {("orders", 0): 5, ("orders", 1): 6}, 7)
    world.put_topic("orders", 4, NEW_ORDERS)
    commit_in_transaction(world, "g", {("orders", 0): 8}, 8)
    gone(world, ORDERS, "orders")
    assert world.coordinator.offsets.pending.partitions("g") == [("orders", 0)]
    world.end(7, is_commit=True)
    assert fetch(world, "g") == {}, "the offset is of the old topic"
    world.end(8, is_commit=True)
    assert fetch(world, "g") == fetch(world.reader(), "g") == {("orders", 0): 8}
