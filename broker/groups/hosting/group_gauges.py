"""Gauges of the groups that this SPU coordinates, read at each scrape."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from tailrace.broker.groups.common.group import Group, GroupKind
from tailrace.broker.groups.common.group_lag import GroupLag

GROUPS_MAX = 10_000
"""How many groups are reported by name. The number is bounded because clients choose group ids."""


class GroupGauges(Struct):
    states: Counter[tuple[GroupKind, str]] = field(default_factory=Counter)
    """The number of groups of each kind in each state."""
    members: Sequence[tuple[str, int]] = ()
    """The ids and member counts of the largest groups."""
    group_lags: Sequence[GroupLag] = ()
    """The largest lags of groups."""


def gauge_groups(groups: Iterable[Group], group_lags: Sequence[GroupLag]) -> GroupGauges:
    found = list(groups)
    members = ((group.group_id, len(group.members)) for group in found)
    return GroupGauges(
        Counter((group.kind, str(group.state)) for group in found),
        heapq.nlargest(GROUPS_MAX, members, key=lambda each: each[1]),
        group_lags,
    )
