"""Tests of deleting groups and of parked requests."""

from collections.abc import Sequence

import pytest
from grouping import Asked, GroupWorld, Sleeper

from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def put(world: GroupWorld, *groups: Sleeper) -> None:
    for group in groups:
        world.coordinator.table.put(group)


def test_deleting_leaves_tombstones(world: GroupWorld) -> None:
    put(world, Sleeper("a"))
    done = world.ask(lambda coordinator, moment, asked: _delete(coordinator, "a", asked))
    assert done.reply == "gone"
    assert world.log == [GroupRecord(GroupMetadataKey("a"), None)]
    assert not world.coordinator.groups


@pytest.mark.parametrize(
    ("groups", "code"),
    [([], ErrorCode.GROUP_ID_NOT_FOUND), ([Sleeper("a", is_empty=False)], ErrorCode.NON_EMPTY_GROUP)],
)
def test_what_cannot_be_deleted(world: GroupWorld, groups: Sequence[Sleeper], code: ErrorCode) -> None:
    put(world, *groups)
    done = world.ask(lambda coordinator, moment, asked: _delete(coordinator, "a", asked))
    assert done.error is not None
    assert done.error.code == code
    assert not world.log


def test_parked_requests_are_taken_out_at_the_end(world: GroupWorld) -> None:
    group, waiter = Sleeper("a"), Asked()
    group.parked.append(waiter)
    put(world, group)
    assert world.coordinator.waiters() == [waiter]
    assert world.coordinator.waiters() == []


def _delete(coordinator: Coordinator, group_id: str, asked: Asked) -> None:
    coordinator.delete(group_id)
    coordinator.output.respond(asked, "gone")
