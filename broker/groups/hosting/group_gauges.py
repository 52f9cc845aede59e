"""What is read off the groups coordinated here at a scrape, rather than counted."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from tailrace.broker.groups.common.group import Group, GroupKind
from tailrace.broker.groups.common.group_lag import GroupLag

GROUPS_MAX = 10_000
"""Told of by name: group ids come from outside."""


class GroupGauges(Struct):
    states: Counter[tuple[GroupKind, str]] = field(default_factory=Counter)
    """How many groups of each kind are in each state."""
    members: Sequence[tuple[str, int]] = ()
    """Of the largest groups."""
    group_lags: Sequence[GroupLag] = ()
    """Of those that are farthest behind."""


def gauge_groups(groups: Iterable[Group], group_lags: Sequence[GroupLag]) -> GroupGauges:
    found = list(groups)
    members = ((group.group_id, len(group.members)) for group in found)
    return GroupGauges(
        Counter((group.kind, str(group.state)) for group in found),
        heapq.nlargest(GROUPS_MAX, members, key=lambda each: each[1]),
        group_lags,
    )
