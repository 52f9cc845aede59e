"""Handles OffsetCommit, OffsetFetch and OffsetDelete.

Offsets belong to a group id and outlive the members of the group. A client that chooses its partitions itself commits
without being a member, so some groups have offsets alone. Replicas of triggers do so, and the coordinator fences their
late commits: see `tailrace.cluster.stream_state.commit_epochs`.

Transactions will need more: an OffsetFetch with `require_stable` has to refuse partitions with offsets of an open
transaction, and such offsets must not expire.
"""

from collections.abc import Sequence
from typing import Any

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.assignments import TopicPartition
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group import Group, GroupKind
from tailrace.broker.groups.common.name_limits import check_names
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.offsets.committed_offsets import NOT_GIVEN, CommittedOffset, CommittedOffsets
from tailrace.broker.groups.offsets.offset_expiry import is_subscribed
from tailrace.broker.groups.offsets.offset_fetching import ResponseBudget, fetch_all, fetch_requested
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.stream_state.commit_epochs import PREFIX as TRIGGER_PREFIX
from tailrace.cluster.stream_state.commit_epochs import StoredCommit, is_fenced
from tailrace.protocol.codec.primitives import NO_UUID
from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup

from .classic_groups import ClassicGroups
from .group_table import GroupTable
from .offset_removal import OffsetRemoval

NOT_FOUND_FROM = 9
"""The first version of OffsetCommit that reports GROUP_ID_NOT_FOUND."""
TOPICS_BY_ID_FROM = 10
"""The first version of OffsetCommit and of OffsetFetch that names topics by id."""

COMMIT_BYTES_MAX = 8 << 20
"""The largest size, roughly, of the records of one commit, which become one batch."""

EXPIRING_METADATA_BYTES_MAX = 2**15 - 1
"""The largest metadata, in UTF-8, of an offset with an expiry time: its record version has a length of two bytes.

Each invalid byte that the request has in its metadata is decoded as a character that takes three bytes in UTF-8.
"""

_RECORD_BYTES = 64
"""The size of a record without names and metadata."""
_TIME_MAX_MS = 2**63 - 1
_TRIGGER_PREFIX = TRIGGER_PREFIX.encode()

_Found = Sequence[tuple[OffsetCommitRequestTopic, TopicSpec | None]]


class OffsetRequests:
    KEYS: tuple[type[Any], ...] = (OffsetCommitKey,)
    """The keys of the records that this class replays."""

    def __init__(self, table: GroupTable, classic_groups: ClassicGroups) -> None:
        self._table = table
        self._classic_groups = classic_groups
        self.committed = CommittedOffsets()
        self.removal = OffsetRemoval(table, self.committed, self._remove)

    # the log

    def replay(self, record: GroupRecord) -> None:
        key, value = record.key, record.value
        assert isinstance(key, OffsetCommitKey)
        if value is None:
            self.committed.remove(key.group, key.topic, key.partition)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        self.committed.put(key.group, key.topic, key.partition, committed)

    def on_loaded(self, moment: Moment) -> None:
        for group_id in self.committed.group_ids():
            if group_id not in self._table.groups:
                self._classic_groups.put_new(group_id, moment)
        self.removal.on_loaded(moment)

    def _append(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Appends the record and applies it in the way in which `replay` applies it after a restart."""
        record = GroupRecord(key, value)
        self._table.output.append(record)
        self.replay(record)

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        if self.committed.get(group_id, topic, partition) is not None:
            self._append(OffsetCommitKey(group_id, topic, partition), None)

    def remove_group(self, group_id: str) -> None:
        """Removes all offsets of the group, also from the log."""
        for topic in self.committed.topics(group_id):
            for partition in self.committed.partitions(group_id, topic):
                self._remove(group_id, topic, partition)

    # OffsetCommit

    def commit(self, request: OffsetCommitRequest, api_version: int, waiter: Waiter, moment: Moment) -> None:
        """Responds with an OffsetCommitResponse.

        A partition that does not exist gets its own error, even if the group refuses the whole commit.
        """
        check_names((request.group_id,))
        by_id = api_version >= TOPICS_BY_ID_FROM
        cluster, output = self._table.cluster, self._table.output
        found = [
            (topic, cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name))
            for topic in request.topics
            if topic.partitions
        ]
        group_error = self._group_error(request, api_version, found, moment)
        expires_ms = _expires_ms(request.retention_time_ms, moment.now_ms)
        before = len(output.records)
        response = OffsetCommitResponse()
        for topic, spec in found:
            partitions = []
            for each in topic.partitions:
                if spec is None:
                    error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif not _has(spec, each.partition_index):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    error = group_error or self._commit(request.group_id, spec, each, expires_ms, moment)
                partitions.append(OffsetCommitResponsePartition(each.partition_index, error))
            response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
        if len(output.records) > before:
            output.respond(waiter, response)
        else:
            output.respond_at_once(waiter, response)

    def _group_error(self, request: OffsetCommitRequest, api_version: int, found: _Found, moment: Moment) -> ErrorCode:
        """Returns the error with which the group refuses to commit the partitions that exist."""
        if not any(
            spec and any(_has(spec, each.partition_index) for each in topic.partitions) for topic, spec in found
        ):
            return ErrorCode.NONE
        generation = request.generation_id_or_member_epoch
        group = self._table.groups.get(request.group_id)
        if group is not None:
            try:
                _check_member(group, request, api_version, found)
            except KafkaError as error:
                return error.code
            if isinstance(group, ClassicGroup):
                group.on_commit(request.member_id, moment)
        elif generation >= 0:
            return ErrorCode.GROUP_ID_NOT_FOUND if api_version >= NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION
        metadata_max = self._table.settings(request.group_id).offset_metadata_bytes_max
        if _bytes_of(request, metadata_max) > COMMIT_BYTES_MAX:
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        return ErrorCode.NONE

    def _commit(
        self, group_id: str, topic: TopicSpec, asked: OffsetCommitRequestPartition, expires_ms: int, moment: Moment
    ) -> ErrorCode:
        metadata = asked.committed_metadata or ""
        if is_longer(metadata, self._table.settings(group_id).offset_metadata_bytes_max) or (
            expires_ms != NOT_GIVEN and len(metadata.encode()) > EXPIRING_METADATA_BYTES_MAX
        ):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if self._is_fenced(group_id, topic, asked.partition_index, StoredCommit(asked.committed_offset, metadata)):
            return ErrorCode.STALE_MEMBER_EPOCH
        if group_id not in self._table.groups:
            self._classic_groups.put_new(group_id, moment)
        value = OffsetCommitValue(
            offset=asked.committed_offset,
            metadata=metadata,
            commit_timestamp=moment.now_ms,
            expire_timestamp=expires_ms,
        )
        if expires_ms == NOT_GIVEN:  # the record version with an expiry time has no such fields
            value.leader_epoch = asked.committed_leader_epoch
            value.topic_id = topic.id
        self._append(OffsetCommitKey(group_id, topic.name, asked.partition_index), value)
        self._table.output.counts.committed_offsets += 1
        return ErrorCode.NONE

    def _is_fenced(self, group_id: str, topic: TopicSpec, partition: int, commit: StoredCommit) -> bool:
        """Whether the commit comes from a replica of a trigger whose shard another replica has taken over, or claims an
        offset that was the newest only before."""
        if not self.committed.metadata_has_prefix(group_id, topic.name, partition, _TRIGGER_PREFIX):
            return False
        stored = self.committed.get(group_id, topic.name, partition)
        # The epochs of a topic begin again if the topic is deleted and created again.
        if stored is None or stored.topic_id not in (topic.id, NO_UUID):
            return False
        return is_fenced(StoredCommit(stored.offset, stored.metadata), commit)

    # OffsetFetch

    def fetch(self, asked: OffsetFetchRequestGroup, api_version: int, budget: ResponseBudget, waiter: Waiter) -> None:
        """Responds with an OffsetFetchResponseGroup."""
        group = self._table.groups.get(asked.group_id)
        if group is not None:
            group.check_fetch(asked.member_id, asked.member_epoch)
        by_id = api_version >= TOPICS_BY_ID_FROM
        fetch = fetch_all if asked.topics is None else fetch_requested
        topics = fetch(asked, self.committed, self._table.cluster, by_id, budget)
        self._table.output.respond(waiter, OffsetFetchResponseGroup(asked.group_id, topics))

    # OffsetDelete

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
                if spec is None or not _has(spec, each.partition_index):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif subscribed:
                    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                else:
                    self._remove(request.group_id, topic.name, each.partition_index)
                partitions.append(OffsetDeleteResponsePartition(each.partition_index, error))
            response.topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
        self._table.output.respond(waiter, response)


def is_longer(text: str, length_max: int) -> bool:
    """Compares lengths as Kafka does: in UTF-16 code units. Some characters need two."""
    if text.isascii() or len(text) > length_max:
        return len(text) > length_max
    return len(text) + sum(character > "\uffff" for character in text) > length_max


def _check_member(group: Group, request: OffsetCommitRequest, api_version: int, found: _Found) -> None:
    """Raises KafkaError if the member may not commit now, or not for these partitions."""
    identity = request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, api_version
    if isinstance(group, ConsumerGroup):
        partitions = (
            TopicPartition(spec.id, each.partition_index)
            for topic, spec in found
            if spec is not None
            for each in topic.partitions
        )
        group.check_commit(*identity, partitions=partitions)
    else:
        group.check_commit(*identity)


def _has(topic: TopicSpec, partition: int) -> bool:
    return 0 <= partition < len(topic.partitions)


def _bytes_of(request: OffsetCommitRequest, metadata_max: int) -> int:
    """Returns roughly the size of the records of the commit, without metadata that is refused because of its length."""
    size = 0
    for topic in request.topics:
        size += len(topic.partitions) * (_RECORD_BYTES + len(request.group_id) + len(topic.name))
        lengths = (len(each.committed_metadata or "") for each in topic.partitions)
        size += sum(length for length in lengths if length <= metadata_max)
    return size


def _expires_ms(retention_ms: int, now_ms: int) -> int:
    return NOT_GIVEN if retention_ms == NOT_GIVEN else min(max(now_ms + retention_ms, 0), _TIME_MAX_MS)
