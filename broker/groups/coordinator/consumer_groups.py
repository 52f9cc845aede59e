"""Creates and changes consumer groups, and removes their overdue members."""

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.subscriptions import TopicPatterns
from tailrace.broker.groups.common.rebalances import LATE, SILENT
from tailrace.broker.groups.consumer.consumer_change import ConsumerChange
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer.group_conversion import downgrade, may_downgrade

from .classic_groups import ClassicGroups
from .group_table import GroupTable


class ConsumerGroups:
    def __init__(self, table: GroupTable, classic_groups: ClassicGroups) -> None:
        self.patterns = TopicPatterns(table.cluster)
        self._table = table
        self._classic_groups = classic_groups

    def make(self, group_id: str) -> ConsumerGroup:
        """Returns an empty group that is not in the table."""
        return ConsumerGroup(group_id, self._remove_overdue)

    def change(self, group: ConsumerGroup, moment: Moment) -> ConsumerChange:
        """Begins a change of the group."""
        table = self._table
        return ConsumerChange(group, table.settings(group.group_id), table.cluster, self.patterns, table.output, moment)

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
