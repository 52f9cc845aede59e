"""ListGroups: the known groups that match the request."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from grouping import GroupWorld, Sleeper
from hosts import request_of
from msgspec import Struct, field

from tailrace.broker.groups.common.group import Group, GroupKind
from tailrace.broker.handlers.groups.group_host import GroupHost
from tailrace.broker.handlers.groups.list_groups import handle
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class Partitions(Struct):
    """Offers what the handler uses of `GroupCoordination`."""

    worlds: list[GroupWorld] = field(default_factory=list)
    is_loading: bool = False

    def groups(self) -> Iterator[Group]:
        return (group for world in self.worlds for group in world.coordinator.groups.values())


def sleeper(group_id: str, state: str, kind: GroupKind = GroupKind.CLASSIC) -> Sleeper:
    group = Sleeper(group_id)
    group.state, group.kind, group.protocol_type = state, kind, "consumer"  # type: ignore[misc]
    return group


@pytest.fixture
def spu() -> Partitions:
    here, there = GroupWorld(), GroupWorld()
    here.coordinator.table.put(sleeper("a", "Stable"))
    here.coordinator.table.put(sleeper("b", "Empty"))
    there.coordinator.table.put(sleeper("c", "Stable", GroupKind.CONSUMER))
    return Partitions([here, there])


def listed(spu: Partitions, **asked: list[str]) -> ListGroupsResponse:
    return handle(
        cast(GroupHost, SimpleNamespace(groups=spu)),
        request_of(ApiKey.LIST_GROUPS),
        ListGroupsRequest(**cast(Any, asked)),
    )


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, "abc"),
        ({"states_filter": ["Stable"]}, "ac"),
        ({"states_filter": ["stable", "EMPTY"]}, "abc"),
        ({"types_filter": ["consumer"]}, "c"),
        ({"types_filter": ["Classic"], "states_filter": ["Stable"]}, "a"),
        ({"states_filter": ["NoSuchState"]}, ""),
    ],
)
def test_groups_by_state_and_type(spu: Partitions, asked: dict[str, list[str]], found: str) -> None:
    assert [group.group_id for group in listed(spu, **asked).groups] == list(found)


def test_a_group_is_described(spu: Partitions) -> None:
    group = listed(spu).groups[2]
    assert (group.protocol_type, group.group_state, group.group_type) == ("consumer", "Stable", "consumer")


def test_while_groups_are_loaded_the_known_ones_are_listed_with_an_error(spu: Partitions) -> None:
    assert listed(spu).error_code == 0
    spu.is_loading = True
    response = listed(spu)
    assert (response.error_code, len(response.groups)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3)
