"""Creates classic groups and puts them into the table, also in the place of a consumer group."""

from collections.abc import Callable

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.protocol.group_records.group_metadata import GroupMetadataValue

from .group_table import GroupTable


class ClassicGroups:
    def __init__(self, table: GroupTable) -> None:
        self._table = table

    def make(self, group_id: str) -> ClassicGroup:
        """Returns an empty group that is not in the table."""
        return ClassicGroup(group_id, self._table.output, self._settings_of(group_id))

    def put(self, group: ClassicGroup, moment: Moment) -> None:
        """Puts a new group into the table. A group that has its id is empty, and is deleted from the log."""
        replaced = self._table.groups.get(group.group_id)
        if replaced is not None:
            for record in replaced.tombstones():
                self._table.output.append(record)
        group.since_ms = moment.now_ms
        self._table.put(group)

    def put_new(self, group_id: str, moment: Moment) -> ClassicGroup:
        """Puts an empty group into the table. It gets no record in the log before it has members."""
        group = self.make(group_id)
        self.put(group, moment)
        return group

    def put_stored(self, group_id: str, value: GroupMetadataValue, moment: Moment) -> None:
        """Puts the group of this record, with its members, into the table after the log has been replayed."""
        group = self._stored(group_id, value)
        self._table.put(group)
        group.on_loaded(moment)

    def put_downgraded(self, replaced: ConsumerGroup, value: GroupMetadataValue, moment: Moment) -> None:
        """Continues a consumer group as the classic group of this record. Its members have to join again."""
        group = self._stored(replaced.group_id, value)
        group.rebalances = replaced.rebalances
        self._table.output.append(group.record())
        self._table.put(group)
        group.on_loaded(moment)
        self._table.reschedule(group)

    def _stored(self, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        return ClassicGroup.stored(group_id, value, self._table.output, self._settings_of(group_id))

    def _settings_of(self, group_id: str) -> Callable[[], GroupSettings]:
        return lambda: self._table.settings(group_id)
