"""DeleteGroups: each group has an answer of its own, and only those go that nobody is in."""

import pytest
from group_handlers import GroupHost, response_of
from grouping import Sleeper

from tailrace.broker.handlers.delete_groups import handle
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest


@pytest.mark.parametrize("version", range(3))
def test_each_group_has_its_answer(version: int) -> None:
    host = GroupHost()
    host.world.coordinator.on_group_replaced(Sleeper("idle"))
    host.world.coordinator.on_group_replaced(Sleeper("busy", is_empty=False))
    response = response_of(host, handle, DeleteGroupsRequest(["busy", "missing", "idle", "busy"]), version)
    assert response.results == [
        DeletableGroupResult("busy", ErrorCode.NON_EMPTY_GROUP),
        DeletableGroupResult("missing", ErrorCode.GROUP_ID_NOT_FOUND),
        DeletableGroupResult("idle"),
    ]
    assert list(host.world.coordinator.groups) == ["busy"]


def test_groups_of_another_coordinator_are_refused() -> None:
    host = GroupHost()
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    response = response_of(host, handle, DeleteGroupsRequest(["a", "b"]), 2)
    assert [each.error_code for each in response.results] == [ErrorCode.NOT_COORDINATOR] * 2


def test_nothing_is_asked_and_answered() -> None:
    assert response_of(GroupHost(), handle, DeleteGroupsRequest([]), 2).results == []
