"""DeleteGroups: each group has a result of its own, and only groups without members are deleted."""

import pytest
from committing import ask_commit
from group_handlers import GroupHost, looking, response_in_turns_of
from grouping import Sleeper

from tailrace.broker.handlers.groups.delete_groups import RECORDS_PER_TURN, handle
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest


@pytest.mark.parametrize("version", range(3))
async def test_each_group_has_its_result(version: int) -> None:
    host = GroupHost()
    host.world.coordinator.table.put(Sleeper("idle"))
    host.world.coordinator.table.put(Sleeper("busy", is_empty=False))
    response = await response_in_turns_of(
        host, handle, DeleteGroupsRequest(["busy", "missing", "idle", "busy"]), version
    )
    assert response.results == [
        DeletableGroupResult("busy", ErrorCode.NON_EMPTY_GROUP),
        DeletableGroupResult("missing", ErrorCode.GROUP_ID_NOT_FOUND),
        DeletableGroupResult("idle"),
    ]
    assert list(host.world.coordinator.groups) == ["busy"]


async def test_groups_of_another_coordinator_are_refused() -> None:
    host = GroupHost()
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    response = await response_in_turns_of(host, handle, DeleteGroupsRequest(["a", "b"]), 2)
    assert [each.error_code for each in response.results] == [ErrorCode.NOT_COORDINATOR] * 2


async def test_an_empty_request_has_an_empty_response() -> None:
    response = await response_in_turns_of(GroupHost(), handle, DeleteGroupsRequest([]), 2)
    assert response.results == []


async def test_other_tasks_run_between_groups_with_many_offsets() -> None:
    host = GroupHost()
    host.world.put_topic("orders", RECORDS_PER_TURN)
    for group in ("a", "b", "c"):
        ask_commit(host.world, group, {("orders", partition): 1 for partition in range(RECORDS_PER_TURN)})
    left: list[int] = []
    async with looking(lambda: left.append(len(host.world.coordinator.groups))):
        await response_in_turns_of(host, handle, DeleteGroupsRequest(["a", "b", "c"]), 2)
    assert any(0 < count < 3 for count in left)
    assert (len(host.world.coordinator.groups), host.turns_ended) == (0, 4)
