from collections import Counter
from typing import Any

import pytest
from msgspec import Struct, field

from tailrace.broker.groups.common.group import GroupKind
from tailrace.broker.groups.hosting import group_gauges
from tailrace.broker.groups.hosting.group_gauges import gauge_groups


class SomeGroup(Struct):
    group_id: str
    state: str
    members: list[str] = field(default_factory=list)
    kind: GroupKind = GroupKind.CLASSIC


def _gauged(*groups: Any) -> group_gauges.GroupGauges:
    return gauge_groups(groups, [])


def test_groups_are_counted_by_kind_and_state() -> None:
    gauges = _gauged(
        SomeGroup("a", "Stable", ["m", "n"]),
        SomeGroup("b", "Stable", ["m"]),
        SomeGroup("c", "Empty"),
        SomeGroup("d", "Stable", ["m"], GroupKind.CONSUMER),
    )
    assert gauges.states == Counter(
        {(GroupKind.CLASSIC, "Stable"): 2, (GroupKind.CLASSIC, "Empty"): 1, (GroupKind.CONSUMER, "Stable"): 1}
    )
    assert dict(gauges.members) == {"a": 2, "b": 1, "c": 0, "d": 1}


def test_of_too_many_groups_the_largest_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_gauges, "GROUPS_MAX", 2)
    gauges = _gauged(*(SomeGroup(str(size), "Stable", ["m"] * size) for size in (1, 3, 2)))
    assert gauges.members == [("3", 3), ("2", 2)]
    assert gauges.states.total() == 3
