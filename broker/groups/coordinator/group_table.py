"""The groups of one coordinator: found by id, and woken when their deadlines come."""

import heapq
import math
from collections.abc import Callable
from itertools import count

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.group import Group
from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_output import GroupOutput
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.cluster.cluster import Cluster

_STALE_ALARMS_MIN = 64

_Alarm = tuple[float, int, Group]


class GroupTable:
    """The groups of one coordinator, with what their request handlers share."""

    def __init__(
        self,
        settings: Callable[[str], GroupSettings],
        cluster: Cluster,
        new_id: Callable[[], str],
        counts: GroupCounts,
    ) -> None:
        self.settings = settings
        """Returns the settings of the group with this id."""
        self.cluster = cluster
        self.new_id = new_id
        """Returns a new random UUID as text."""
        self.output = GroupOutput(counts=counts)
        self.groups: dict[str, Group] = {}
        self._alarms: list[_Alarm] = []
        """A heap of deadlines, with a number that orders equal ones."""
        self._sequence = count()
        self._alarm_of: dict[str, float] = {}
        """The one valid alarm of each group id. Other alarms of the group are stale."""

    # deadlines

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`: perhaps too early, never too late."""
        return self._alarms[0][0] if self._alarms else math.inf

    def on_deadline(self, moment: Moment) -> None:
        """Wakes each group whose deadline has come, once."""
        alarms = self._alarms
        due = []
        while alarms and alarms[0][0] <= moment.now:
            alarm = heapq.heappop(alarms)
            if self._is_valid(alarm):
                group = alarm[2]
                del self._alarm_of[group.group_id]
                due.append(group)
        for group in due:
            if self.groups.get(group.group_id) is group and group.deadline <= moment.now:
                group.on_deadline(moment)
            if self.groups.get(group.group_id) is group:
                self.reschedule(group)

    def reschedule(self, group: Group) -> None:
        """Sets an earlier alarm if the group's deadline has become earlier. A later deadline needs no new alarm."""
        deadline = group.deadline
        if deadline < self._alarm_of.get(group.group_id, math.inf):
            self._alarm_of[group.group_id] = deadline
            heapq.heappush(self._alarms, (deadline, next(self._sequence), group))
            if len(self._alarms) > 2 * len(self._alarm_of) + _STALE_ALARMS_MIN:
                # A stale alarm keeps a removed group in memory for as long as its members' sessions could have lasted.
                self._alarms = [alarm for alarm in self._alarms if self._is_valid(alarm)]
                heapq.heapify(self._alarms)

    def _is_valid(self, alarm: _Alarm) -> bool:
        """Returns False if an earlier alarm was set since, or if another object has taken the group's place."""
        deadline, _, group = alarm
        return self._alarm_of.get(group.group_id) == deadline and self.groups.get(group.group_id) is group

    # groups

    def put(self, group: Group) -> None:
        """Adds the group. It takes the place of any group with this id, also of the other kind."""
        self.groups[group.group_id] = group
        self._alarm_of.pop(group.group_id, None)
        self.reschedule(group)

    def remove(self, group: Group) -> None:
        """Removes the group, unless another object has taken its place."""
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            self._alarm_of.pop(group.group_id, None)

    def delete(self, group: Group) -> None:
        """Removes the group, also from the log. Its offsets are not deleted."""
        for record in group.tombstones():
            self.output.append(record)
        self.remove(group)
