"""The coordinator of the groups of one partition of `__consumer_offsets`.

It knows nothing but its log: a coordinator that replays the same records has the same groups. `classic`, `consumer` and
`offsets` each handle one kind of requests and replay one kind of records. They share the group table.
"""

from collections.abc import Callable

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .classic_groups import ClassicGroups
from .classic_protocol_members import ClassicProtocolMembers
from .classic_requests import ClassicRequests
from .consumer_groups import ConsumerGroups
from .consumer_requests import ConsumerRequests
from .group_table import GroupTable
from .offset_requests import OffsetRequests


class Coordinator:
    def __init__(
        self,
        settings: Callable[[str], GroupSettings],
        cluster: Cluster,
        new_id: Callable[[], str],
        counts: GroupCounts,
    ) -> None:
        self.table = GroupTable(settings, cluster, new_id, counts)
        self.groups = self.table.groups
        self.output = self.table.output
        classic_groups = ClassicGroups(self.table)
        self._consumer_groups = ConsumerGroups(self.table, classic_groups)
        speakers = ClassicProtocolMembers(self.table, self._consumer_groups)
        self.classic = ClassicRequests(self.table, classic_groups, speakers)
        self.consumer = ConsumerRequests(self.table, self._consumer_groups)
        self.offsets = OffsetRequests(self.table, classic_groups)

    # state

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`: perhaps too early, never too late."""
        return min(self.table.deadline, self._consumer_groups.deadline, self.offsets.deadline)

    def waiters(self) -> list[Waiter]:
        """Takes out all parked requests, because this coordinator ends."""
        return [waiter for group in self.groups.values() for waiter in group.waiters()] + self.offsets.waiters()

    # events

    def replay(self, record: GroupRecord) -> None:
        """Applies the next record of the log while the log is loaded."""
        for requests in (self.offsets, self.classic, self.consumer):
            if isinstance(record.key, requests.KEYS):
                requests.replay(record)
                return

    def replay_pending(self, producer_id: int, record: GroupRecord) -> None:
        """Applies an offset of a transaction that is open at the end of the log, after all other records.

        The record has no value if a later commit of the same partition is in effect.
        """
        if isinstance(record.key, self.offsets.KEYS):
            self.offsets.replay_pending(producer_id, record)

    def on_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Ends the transaction of the producer, because its marker was appended to the log."""
        self.offsets.on_marker(producer_id, is_commit=is_commit)

    def on_loaded(self, moment: Moment) -> None:
        """Starts the sessions of all members, after all records have been replayed."""
        for requests in (self.offsets, self.classic, self.consumer):
            requests.on_loaded(moment)
        for group in self.groups.values():
            self.table.reschedule(group)

    def on_deadline(self, moment: Moment) -> None:
        """Does what is due: ends sessions and rebalances, makes assignments, and removes expired offsets."""
        self.table.on_deadline(moment)
        self._consumer_groups.on_deadline(moment)
        if self.offsets.deadline <= moment.now:
            self.offsets.on_deadline(moment)

    def delete(self, group_id: str) -> None:
        """Deletes a group with its offsets. Raises KafkaError if there is no such group, or if it has members."""
        group = self.groups.get(group_id)
        if group is None:
            raise no_such_group(group_id)
        group.check_deletable()
        self.offsets.remove_group(group_id)
        self.table.delete(group)


def no_such_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
