"""What is asked of offsets: OffsetCommit, OffsetFetch, OffsetDelete.

Offsets belong to a group's id and outlive the group's members. Clients that choose their partitions themselves commit
without being members: so there are groups of offsets only.

Offsets of transactions that are still open are to come here, too: an OffsetFetch with `require_stable` has to refuse
partitions that have some, and they must not expire.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailrace.broker.groups.assignment.assignments import TopicPartition
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group import Group, GroupKind
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.common.name_limits import check_names
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.offsets.committed_offsets import NOT_SAID, CommittedOffset, CommittedOffsets
from tailrace.broker.groups.offsets.offset_expiry import CONSUMER_PROTOCOL, is_subscribed
from tailrace.broker.groups.offsets.offset_fetching import ReplyRoom, fetch_all, fetch_asked
from tailrace.cluster.specs import TopicSpec
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

from .offset_removal import OffsetForgetting

if TYPE_CHECKING:
    from .coordinator import Coordinator

SAYS_NOT_FOUND_FROM = 9
"""OffsetCommit"""
TOPICS_BY_ID_FROM = 10
"""OffsetCommit, OffsetFetch"""

COMMIT_BYTES_MAX = 8 << 20
"""Of the records of one commit, roughly: they become one batch."""

EXPIRING_METADATA_BYTES_MAX = 2**15 - 1
"""The one form of record that says when an offset expires has no room for more. A request that says it may have brought
so many bytes, each of which is none of UTF-8 and is read as a character of three."""

_RECORD_BYTES = 64
"""Without names and metadata."""
_TIME_MAX_MS = 2**63 - 1

_Found = Sequence[tuple[OffsetCommitRequestTopic, TopicSpec | None]]


class OffsetRequests:
    KEYS: tuple[type[Any], ...] = (OffsetCommitKey,)
    """Of the records that are kept here."""

    def __init__(self, coordinator: "Coordinator") -> None:
        self._coordinator = coordinator
        self.committed = CommittedOffsets()
        self.forgetting = OffsetForgetting(coordinator, self.committed, self._forget)

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
            if group_id not in self._coordinator.groups:
                self._coordinator.classic.new_group(group_id, moment)
        self.forgetting.on_loaded(moment)

    def _append(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """What is known comes of the record alone, now as when the log is read again."""
        record = GroupRecord(key, value)
        self._coordinator.ready.append(record)
        self.replay(record)

    def _forget(self, group_id: str, topic: str, partition: int) -> None:
        if self.committed.get(group_id, topic, partition) is not None:
            self._append(OffsetCommitKey(group_id, topic, partition), None)

    def forget_group(self, group_id: str) -> None:
        """Appends the records that make all its offsets gone."""
        for topic in self.committed.topics(group_id):
            for partition in self.committed.partitions(group_id, topic):
                self._forget(group_id, topic, partition)

    # OffsetCommit

    def commit(self, request: OffsetCommitRequest, api_version: int, waiter: Waiter, moment: Moment) -> None:
        """Replies with an OffsetCommitResponse. What does not exist is refused by itself, whatever the group says."""
        check_names((request.group_id,))
        by_id = api_version >= TOPICS_BY_ID_FROM
        cluster, ready = self._coordinator.cluster, self._coordinator.ready
        found = [
            (topic, cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name))
            for topic in request.topics
            if topic.partitions
        ]
        refusal = self._refusal(request, api_version, found, moment)
        expires_ms = _expires_ms(request.retention_time_ms, moment.now_ms)
        before = len(ready.records)
        response = OffsetCommitResponse()
        for topic, spec in found:
            partitions = []
            for each in topic.partitions:
                if spec is None:
                    error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif not _has(spec, each.partition_index):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    error = refusal or self._commit(request.group_id, spec, each, expires_ms, moment)
                partitions.append(OffsetCommitResponsePartition(each.partition_index, error))
            response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
        if len(ready.records) > before:
            ready.answer(waiter, response)
        else:
            ready.answer_at_once(waiter, response)

    def _refusal(self, request: OffsetCommitRequest, api_version: int, found: _Found, moment: Moment) -> ErrorCode:
        """Why not even that may be committed which exists."""
        if not any(
            spec and any(_has(spec, each.partition_index) for each in topic.partitions) for topic, spec in found
        ):
            return ErrorCode.NONE
        generation = request.generation_id_or_member_epoch
        group = self._coordinator.groups.get(request.group_id)
        if group is not None:
            try:
                _check_member(group, request, api_version, found)
            except KafkaError as error:
                return error.code
            if isinstance(group, ClassicGroup):
                group.hear_of_commit(request.member_id, moment)
        elif generation >= 0:
            return ErrorCode.GROUP_ID_NOT_FOUND if api_version >= SAYS_NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION
        metadata_max = self._coordinator.settings(request.group_id).offset_metadata_bytes_max
        if _bytes_of(request, metadata_max) > COMMIT_BYTES_MAX:
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        return ErrorCode.NONE

    def _commit(
        self, group_id: str, topic: TopicSpec, asked: OffsetCommitRequestPartition, expires_ms: int, moment: Moment
    ) -> ErrorCode:
        metadata = asked.committed_metadata or ""
        if is_longer(metadata, self._coordinator.settings(group_id).offset_metadata_bytes_max) or (
            expires_ms != NOT_SAID and len(metadata.encode()) > EXPIRING_METADATA_BYTES_MAX
        ):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if group_id not in self._coordinator.groups:
            self._coordinator.classic.new_group(group_id, moment)
        value = OffsetCommitValue(
            offset=asked.committed_offset,
            metadata=metadata,
            commit_timestamp=moment.now_ms,
            expire_timestamp=expires_ms,
        )
        if expires_ms == NOT_SAID:  # otherwise the record has no room for these
            value.leader_epoch = asked.committed_leader_epoch
            value.topic_id = topic.id
        self._append(OffsetCommitKey(group_id, topic.name, asked.partition_index), value)
        self._coordinator.ready.counts.committed_offsets += 1
        return ErrorCode.NONE

    # OffsetFetch

    def fetch(self, asked: OffsetFetchRequestGroup, api_version: int, room: ReplyRoom, waiter: Waiter) -> None:
        """Replies with an OffsetFetchResponseGroup."""
        group = self._coordinator.groups.get(asked.group_id)
        if group is not None:
            group.check_fetch(asked.member_id, asked.member_epoch)
        by_id = api_version >= TOPICS_BY_ID_FROM
        fetch = fetch_all if asked.topics is None else fetch_asked
        topics = fetch(asked, self.committed, self._coordinator.cluster, by_id, room)
        self._coordinator.ready.answer(waiter, OffsetFetchResponseGroup(asked.group_id, topics))

    # OffsetDelete

    def delete(self, request: OffsetDeleteRequest, waiter: Waiter) -> None:
        """Replies with an OffsetDeleteResponse."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "no group is named")
        group = self._coordinator.groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id}")
        if group.kind is GroupKind.CLASSIC and not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "the group has members, and nobody knows what they read")
        response = OffsetDeleteResponse()
        for topic in request.topics:
            spec = self._coordinator.cluster.topics.get(topic.name)
            subscribed = is_subscribed(group, topic.name)
            partitions = []
            for each in topic.partitions:
                error = ErrorCode.NONE
                if spec is None or not _has(spec, each.partition_index):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif subscribed:
                    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                else:
                    self._forget(request.group_id, topic.name, each.partition_index)
                partitions.append(OffsetDeleteResponsePartition(each.partition_index, error))
            response.topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
        self._coordinator.ready.answer(waiter, response)


def is_longer(text: str, length_max: int) -> bool:
    """As Kafka measures it: in Java, where some characters count twice."""
    if text.isascii() or len(text) > length_max:
        return len(text) > length_max
    return len(text) + sum(character > "\uffff" for character in text) > length_max


def _check_member(group: Group, request: OffsetCommitRequest, api_version: int, found: _Found) -> None:
    """Raises KafkaError when this member may not commit now, or not these."""
    said = request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, api_version
    if isinstance(group, ConsumerGroup):
        named = (
            TopicPartition(spec.id, each.partition_index)
            for topic, spec in found
            if spec is not None
            for each in topic.partitions
        )
        group.check_commit(*said, partitions=named)
    else:
        group.check_commit(*said)


def _has(topic: TopicSpec, partition: int) -> bool:
    return 0 <= partition < len(topic.partitions)


def _bytes_of(request: OffsetCommitRequest, metadata_max: int) -> int:
    """Metadata that is too long will be refused by itself."""
    size = 0
    for topic in request.topics:
        size += len(topic.partitions) * (_RECORD_BYTES + len(request.group_id) + len(topic.name))
        lengths = (len(each.committed_metadata or "") for each in topic.partitions)
        size += sum(length for length in lengths if length <= metadata_max)
    return size


def _expires_ms(retention_ms: int, now_ms: int) -> int:
    return NOT_SAID if retention_ms == NOT_SAID else min(max(now_ms + retention_ms, 0), _TIME_MAX_MS)
