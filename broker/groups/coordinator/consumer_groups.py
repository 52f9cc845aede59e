"""Creates and changes consumer groups, removes their overdue members, and makes large target assignments in steps."""

import math
from collections import deque

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.subscriptions import TopicPatterns
from tailrace.broker.groups.common.rebalances import LATE, SILENT
from tailrace.broker.groups.consumer.consumer_change import ConsumerChange
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer.group_conversion import downgrade, may_downgrade

from .classic_groups import ClassicGroups
from .group_table import GroupTable

ITEMS_PER_TURN = 2_000
"""How many items of target assignments are handled, in about a millisecond, before other tasks run."""


class ConsumerGroups:
    def __init__(self, table: GroupTable, classic_groups: ClassicGroups) -> None:
        self.patterns = TopicPatterns(table.cluster)
        self._table = table
        self._classic_groups = classic_groups
        self._assigning: deque[ConsumerGroup] = deque()
        """The groups whose target assignments are made in steps. A group is at most once in it."""

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`."""
        return -math.inf if self._assigning else math.inf

    def on_deadline(self, moment: Moment) -> None:
        """Goes on with the target assignments. The groups take turns."""
        left = ITEMS_PER_TURN
        while self._assigning and left > 0:
            group = self._assigning.popleft()
            if self._table.groups.get(group.group_id) is group:
                left -= self.change(group, moment).go_on_assigning(left)
                if group.making is not None:
                    self._assigning.append(group)

    def make(self, group_id: str) -> ConsumerGroup:
        """Returns an empty group that is not in the table."""
        return ConsumerGroup(group_id, self._remove_overdue)

    def change(self, group: ConsumerGroup, moment: Moment) -> ConsumerChange:
        """Begins a change of the group."""
        table = self._table
        settings = table.settings(group.group_id)
        return ConsumerChange(group, settings, table.cluster, self.patterns, table.output, moment, self._assigning)

    def after_removal(self, group: ConsumerGroup, moment: Moment) -> None:
        """Downgrades the group to a classic group if all members that are left use the classic protocol."""
        table = self._table
        if not may_downgrade(group, table.settings(group.group_id)):
            table.reschedule(group)
            return
        for record in group.tombstones():
            table.output.append(record)
        self._classic_groups.put_downgraded(group, downgrade(group, table.cluster, moment.now_ms), moment)

    def _remove_overdue(self, group: ConsumerGroup, moment: Moment) -> None:
        change = self.change(group, moment)
        for awaited, why in (
            (group.sessions, f"{SILENT} in time"),
            (group.revocations, f"{LATE} revoke its partitions in time"),
            (group.joins, f"{LATE} join again in time"),
            (group.syncs, f"{LATE} ask for its assignment in time"),
        ):
            overdue = [group.members[member_id] for member_id in awaited.take_due(moment.now)]
            if overdue:
                change.remove(overdue, why)
        self.after_removal(group, moment)
