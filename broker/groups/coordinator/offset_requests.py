"""Handles requests about offsets, and the markers of transactions that have committed offsets.

Offsets belong to a group id and outlive the members of the group. A client that chooses its partitions itself commits
without being a member, so some groups have offsets alone. Replicas of triggers do so, and the coordinator fences their
late commits: see `tailrace.cluster.stream_state.commit_epochs`.
"""

from typing import Any

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.group import GroupKind
from tailrace.broker.groups.offsets.offset_expiry import is_subscribed
from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from .classic_groups import ClassicGroups
from .group_table import GroupTable
from .offset_commits import OffsetCommits, has_partition
from .offset_fetches import OffsetFetches
from .offset_removal import OffsetRemoval
from .offset_table import OffsetTable


class OffsetRequests:
    KEYS: tuple[type[Any], ...] = (OffsetCommitKey,)
    """The keys of the records that this class replays."""

    def __init__(self, table: GroupTable, classic_groups: ClassicGroups) -> None:
        self._table = table
        self._offsets = OffsetTable(table, classic_groups)
        commits = OffsetCommits(table, self._offsets)
        self._fetches = OffsetFetches(table, self._offsets)
        self.committed = self._offsets.committed
        self.pending = self._offsets.pending
        self.removal = OffsetRemoval(table, self._offsets)
        self.replay = self._offsets.replay
        self.replay_pending = self._offsets.replay_pending
        self.commit = commits.commit
        self.commit_in_transaction = commits.commit_in_transaction
        self.fetch = self._fetches.fetch
        self.waiters = self._fetches.waiters

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`."""
        return min(self._fetches.deadline, self.removal.deadline)

    def on_loaded(self, moment: Moment) -> None:
        self._offsets.on_loaded(moment)
        self.removal.on_loaded(moment)

    def on_deadline(self, moment: Moment) -> None:
        self._fetches.on_deadline(moment)
        if self.removal.deadline <= moment.now:
            self.removal.on_deadline(moment)

    def on_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Ends the transaction of the producer, because its marker was appended to the log."""
        self._fetches.on_fewer_pending(self._offsets.on_marker(producer_id, is_commit=is_commit))

    def remove_group(self, group_id: str) -> None:
        """Removes all offsets of the group, also from the log."""
        self._offsets.remove_group(group_id)
        self._fetches.on_fewer_pending({group_id})

    def delete(self, request: OffsetDeleteRequest, waiter: Waiter) -> None:
        """Responds with an OffsetDeleteResponse."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = self._table.groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id}")
        if group.kind is GroupKind.CLASSIC and not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "the group has members, and their subscriptions are unknown")
        response = OffsetDeleteResponse()
        for topic in request.topics:
            spec = self._table.cluster.topics.get(topic.name)
            subscribed = is_subscribed(group, topic.name)
            partitions = []
            for each in topic.partitions:
                error = ErrorCode.NONE
                if spec is None or not has_partition(spec, each.partition_index):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif subscribed:
                    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                else:
                    self._offsets.remove(request.group_id, topic.name, each.partition_index)
                partitions.append(OffsetDeleteResponsePartition(each.partition_index, error))
            response.topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
        self._table.output.respond(waiter, response)
        self._fetches.on_fewer_pending({request.group_id})
