"""The groups of one partition of the internal topic: found, replayed from its log, woken when their time comes.

What there is follows from the log alone. Each kind of request has its desk: `classic`, `consumer` and `offsets`.
"""

import heapq
import math
from collections.abc import Callable
from itertools import count

from tailrace.broker.groups.common.coordinator_output import Ready, Waiter
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.coordinator_settings import GroupSettings
from tailrace.broker.groups.common.group import Group
from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.moment import Moment
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .classic_requests import ClassicRequests
from .consumer_requests import ConsumerRequests
from .offset_requests import OffsetRequests

_STALE_MIN = 64

_Alarm = tuple[float, int, Group]


class Coordinator:
    def __init__(
        self,
        settings: Callable[[str], GroupSettings],
        cluster: Cluster,
        new_id: Callable[[], str],
        counts: GroupCounts,
    ) -> None:
        self.settings = settings
        """By the group's id."""
        self.cluster = cluster
        self.new_id = new_id
        """A random UUID as a text, another one each time."""
        self.ready = Ready(counts)
        self.groups: dict[str, Group] = {}
        self.classic = ClassicRequests(self)
        self.consumer = ConsumerRequests(self)
        self.offsets = OffsetRequests(self)
        self._alarms: list[_Alarm] = []
        self._sequence = count()
        self._alarm_of: dict[str, float] = {}

    # what is

    @property
    def deadline(self) -> float:
        """When `on_deadline` is to be called, if nothing happens before."""
        alarm = self._alarms[0][0] if self._alarms else math.inf
        return min(alarm, self.offsets.forgetting.deadline)

    def waiters(self) -> list[Waiter]:
        """Takes out everyone who is parked: this coordinator ends."""
        return [waiter for group in self.groups.values() for waiter in group.waiters()]

    # what happened

    def replay(self, record: GroupRecord) -> None:
        """The next record of the log, while it is loaded."""
        for desk in (self.offsets, self.classic, self.consumer):
            if isinstance(record.key, desk.KEYS):
                desk.replay(record)
                return

    def on_loaded(self, moment: Moment) -> None:
        """All records have been replayed; the sessions of all members begin anew."""
        for desk in (self.offsets, self.classic, self.consumer):
            desk.on_loaded(moment)
        for group in self.groups.values():
            self.touched(group)

    def touched(self, group: Group) -> None:
        """The group's deadline may be earlier than it was."""
        deadline = group.deadline
        if deadline < self._alarm_of.get(group.group_id, math.inf):
            self._alarm_of[group.group_id] = deadline
            heapq.heappush(self._alarms, (deadline, next(self._sequence), group))
            if len(self._alarms) > 2 * len(self._alarm_of) + _STALE_MIN:
                # Groups that come and go would be held for as long as their members' sessions could have lasted.
                self._alarms = [alarm for alarm in self._alarms if self._counts(alarm)]
                heapq.heapify(self._alarms)

    def on_deadline(self, moment: Moment) -> None:
        alarms = self._alarms
        due = []
        while alarms and alarms[0][0] <= moment.now:
            alarm = heapq.heappop(alarms)
            if self._counts(alarm):
                group = alarm[2]
                del self._alarm_of[group.group_id]
                due.append(group)
        for group in due:
            if self.groups.get(group.group_id) is group and group.deadline <= moment.now:
                group.on_deadline(moment)
            if self.groups.get(group.group_id) is group:
                self.touched(group)
        if self.offsets.forgetting.deadline <= moment.now:
            self.offsets.forgetting.on_deadline(moment)

    def _counts(self, alarm: _Alarm) -> bool:
        """Otherwise an earlier one was set since, or another object took the group's place."""
        deadline, _, group = alarm
        return self._alarm_of.get(group.group_id) == deadline and self.groups.get(group.group_id) is group

    def on_group_replaced(self, group: Group) -> None:
        """Another object, perhaps of the other kind, takes the place of the group with this id."""
        self.groups[group.group_id] = group
        self._alarm_of.pop(group.group_id, None)
        self.touched(group)

    def on_group_gone(self, group: Group) -> None:
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            self._alarm_of.pop(group.group_id, None)

    def delete(self, group_id: str) -> None:
        """With its offsets. Raises KafkaError when there is no such group, or it is in use."""
        group = self.groups.get(group_id)
        if group is None:
            raise no_such_group(group_id)
        group.check_deletable()
        self.offsets.forget_group(group_id)
        for record in group.tombstones():
            self.ready.append(record)
        self.on_group_gone(group)


def no_such_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
