"""The offsets of all groups of a coordinator: the committed ones, and those that wait for the end of a transaction.

Every change is a record of the log, or the marker of a transaction. It is applied here in the way in which it is
applied after a restart.
"""

from tailrace.broker.coordination.coordinator_output import RecordProducer
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.offsets.committed_offsets import CommittedOffset, CommittedOffsets
from tailrace.broker.groups.offsets.pending_offsets import PendingOffsets
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

from .classic_groups import ClassicGroups
from .group_table import GroupTable


class OffsetTable:
    def __init__(self, table: GroupTable, classic_groups: ClassicGroups) -> None:
        self._table = table
        self._classic_groups = classic_groups
        self.committed = CommittedOffsets()
        self.pending = PendingOffsets()

    # state

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Returns whether there is an offset, committed or pending."""
        return self.committed.get(group_id, topic, partition) is not None or self.pending.has(
            group_id, topic, partition
        )

    def __contains__(self, group_id: str) -> bool:
        """Returns whether the group has offsets, committed or pending."""
        return group_id in self.committed or group_id in self.pending

    # the log

    def replay(self, record: GroupRecord) -> None:
        """Applies a record that belongs to no transaction, or to one that is committed."""
        group_id, topic, partition = _place(record)
        if record.value is None:
            self.committed.remove(group_id, topic, partition)
            self.pending.discard(group_id, topic, partition)
        else:
            self.committed.put(group_id, topic, partition, _committed(record.value))
            self.pending.supersede(group_id, topic, partition)

    def replay_pending(self, producer_id: int, record: GroupRecord) -> None:
        """Applies a record of an open transaction. It has no value if a later commit of the partition is in effect."""
        self.pending.put(producer_id, *_place(record), None if record.value is None else _committed(record.value))

    def on_marker(self, producer_id: int, *, is_commit: bool) -> set[str]:
        """Ends the transaction of a producer. Returns the groups that it has committed offsets for."""
        ended = self.pending.end(producer_id, is_commit=is_commit)
        for key, committed in ended:
            if committed is not None:
                self.committed.put(*key, committed)
        return {key.group_id for key, _ in ended}

    def on_loaded(self, moment: Moment) -> None:
        """Makes the groups that have offsets and nothing else."""
        for group_id in (*self.committed.group_ids(), *self.pending.group_ids()):
            self.ensure_group(group_id, moment)

    # changes

    def ensure_group(self, group_id: str, moment: Moment) -> None:
        if group_id not in self._table.groups:
            self._classic_groups.put_new(group_id, moment)

    def append(self, key: OffsetCommitKey, value: OffsetCommitValue, producer: RecordProducer | None = None) -> None:
        """Commits an offset, in the open transaction of the producer if there is one."""
        record = GroupRecord(key, value)
        if producer is None:
            self._table.output.append(record)
            self.replay(record)
        else:
            self._table.output.append_in_transaction(record, producer)
            self.replay_pending(producer.producer_id, record)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Removes the offset of a partition, committed or pending, also from the log."""
        if self.has(group_id, topic, partition):
            record = GroupRecord(OffsetCommitKey(group_id, topic, partition), None)
            self._table.output.append(record)
            self.replay(record)

    def remove_group(self, group_id: str) -> None:
        """Removes all offsets of the group, also from the log."""
        for topic in self.committed.topics(group_id):
            for partition in self.committed.partitions(group_id, topic):
                self.remove(group_id, topic, partition)
        for topic, partition in self.pending.partitions(group_id):
            self.remove(group_id, topic, partition)


def _place(record: GroupRecord) -> tuple[str, str, int]:
    key = record.key
    assert isinstance(key, OffsetCommitKey)
    return key.group, key.topic, key.partition


def _committed(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )
