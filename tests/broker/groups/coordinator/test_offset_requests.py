import pytest
from classic_groups import stable_group
from committing import ask_delete, commit, delete, fetch
from grouping import GroupWorld

from tailrace.protocol.error_codes import ErrorCode

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ORDERS, PAYMENTS = 7001, 7002


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    world.put_topic("orders", 4, ORDERS)
    world.put_topic("payments", 2, PAYMENTS)
    world.restart()
    return world


def test_offsets_are_deleted_one_by_one(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5, ("orders", 1): 6})
    asked = [("orders", 0), ("orders", 3), ("orders", 99), ("nothing", 0)]
    errors = {("orders", 0): NONE, ("orders", 3): NONE, ("orders", 99): UNKNOWN, ("nothing", 0): UNKNOWN}
    assert delete(world, "g", asked) == errors
    assert fetch(world, "g") == {("orders", 1): 6}
    assert [record.value is None for record in world.log] == [False, False, True], "a tombstone for what was there"
    world.restart()
    assert fetch(world, "g") == {("orders", 1): 6}


def test_a_group_is_there_without_its_last_offset_until_it_is_looked_for(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5})
    delete(world, "g", [("orders", 0)])
    assert delete(world, "g", [("orders", 0)]) == {("orders", 0): NONE}
    world.pass_time(600)
    assert ask_delete(world, "g", [("orders", 0)]).error.code is ErrorCode.GROUP_ID_NOT_FOUND  # type: ignore[union-attr]


def test_groups_that_cannot_be_asked_to_delete(world: GroupWorld) -> None:
    def refusal(group: str) -> ErrorCode:
        error = ask_delete(world, group, [("orders", 0)]).error
        assert error is not None
        return error.code

    assert refusal("nobody") == ErrorCode.GROUP_ID_NOT_FOUND
    commit(world, "", {("orders", 0): 5})
    assert refusal("") == ErrorCode.INVALID_GROUP_ID
    (client,) = stable_group(world, 1, protocol_type="connect")
    assert refusal(client.group_id) == ErrorCode.NON_EMPTY_GROUP
    client.leave()
    assert delete(world, client.group_id, [("orders", 0)]) == {("orders", 0): NONE}


def test_offsets_that_members_use_are_not_deleted(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    group = client.group_id
    commit(world, group, {("orders", 0): 5, ("payments", 0): 6}, generation=client.generation, member=client.member_id)
    asked = [("orders", 0), ("orders", 9), ("payments", 0)]
    errors = {("orders", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("orders", 9): UNKNOWN, ("payments", 0): NONE}
    assert delete(world, group, asked) == errors
    assert fetch(world, group) == {("orders", 0): 5}
    client.leave()
    assert delete(world, group, [("orders", 0)]) == {("orders", 0): NONE}


def test_offsets_go_with_their_group(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5, ("payments", 1): 6})
    commit(world, "h", {("orders", 0): 7})
    world.ask(lambda coordinator, moment, waiter: coordinator.delete("g"))
    for _ in range(2):
        assert fetch(world, "g") == {} and fetch(world, "h") == {("orders", 0): 7}
        assert list(world.coordinator.groups) == ["h"]
        world.restart()
