"""Handles OffsetCommit, and TxnOffsetCommit once the transaction is known to be open.

Both check the member in the same way (KIP-447). What a transaction commits is pending until its marker.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from tailrace.broker.coordination.coordinator_output import RecordProducer, Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.assignments import TopicPartition
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.group import Group
from tailrace.broker.groups.common.name_limits import check_names
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.offsets.committed_offsets import NOT_GIVEN
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.stream_state.commit_epochs import PREFIX as TRIGGER_PREFIX
from tailrace.cluster.stream_state.commit_epochs import StoredCommit, is_fenced
from tailrace.protocol.codec.primitives import NO_UUID
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
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from .group_table import GroupTable
from .offset_table import OffsetTable

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

NOT_FOUND_FROM = 9
"""The first version of OffsetCommit that reports GROUP_ID_NOT_FOUND."""
TOPICS_BY_ID_FROM = 10
"""The first version of OffsetCommit and of OffsetFetch that names topics by id."""

COMMIT_BYTES_MAX = 8 << 20
"""The largest size, roughly, of the records of one commit, which become one batch."""
PENDING_OFFSETS_MAX = 1 << 20
"""How many offsets may wait for the ends of transactions in one coordinator. Clients retry what goes beyond."""

EXPIRING_METADATA_BYTES_MAX = 2**15 - 1
"""The largest metadata, in UTF-8, of an offset with an expiry time: its record version has a length of two bytes.

Each invalid byte that the request has in its metadata is decoded as a character that takes three bytes in UTF-8.
"""

_RECORD_BYTES = 64
"""The size of a record without names and metadata."""
_TIME_MAX_MS = 2**63 - 1
_TRIGGER_PREFIX = TRIGGER_PREFIX.encode()

_Partition: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
_Topic: TypeAlias = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
_Found: TypeAlias = Sequence[tuple[_Topic, TopicSpec | None]]


class _Commit(NamedTuple):
    """A request of either kind."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    api_version: int
    found: _Found
    """The topics of the request, with None for those that do not exist."""
    expires_ms: int = NOT_GIVEN
    producer: RecordProducer | None = None
    """The producer whose transaction commits the offsets; None outside of transactions."""


class OffsetCommits:
    def __init__(self, table: GroupTable, offsets: OffsetTable) -> None:
        self._table = table
        self._offsets = offsets

    def commit(self, request: OffsetCommitRequest, api_version: int, waiter: Waiter, moment: Moment) -> None:
        """Responds with an OffsetCommitResponse.

        A partition that does not exist gets its own error, even if the group refuses the whole commit.
        """
        check_names((request.group_id,))
        by_id = api_version >= TOPICS_BY_ID_FROM
        cluster = self._table.cluster
        found = [
            (topic, cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name))
            for topic in request.topics
            if topic.partitions
        ]
        commit = _Commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            api_version,
            found,
            _expires_ms(request.retention_time_ms, moment.now_ms),
        )
        before = len(self._table.output.records)
        errors = self._commit_all(commit, ErrorCode.UNKNOWN_TOPIC_ID if by_id else UNKNOWN, moment)
        topics = [
            OffsetCommitResponseTopic(
                topic.name, topic.topic_id, [OffsetCommitResponsePartition(*each) for each in partitions]
            )
            for (topic, _), partitions in zip(found, errors, strict=True)
        ]
        self._respond(waiter, OffsetCommitResponse(topics=topics), before)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int, waiter: Waiter, moment: Moment
    ) -> None:
        """Responds with a TxnOffsetCommitResponse. The caller has made sure that the transaction is open.

        A partition that does not exist gets its own error, even if the group refuses the whole commit.
        """
        check_names((request.group_id,))
        cluster = self._table.cluster
        found = [(topic, cluster.topics.get(topic.name)) for topic in request.topics if topic.partitions]
        commit = _Commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            api_version,
            found,
            producer=RecordProducer(request.producer_id, request.producer_epoch),
        )
        before = len(self._table.output.records)
        topics = [
            TxnOffsetCommitResponseTopic(topic.name, [TxnOffsetCommitResponsePartition(*each) for each in partitions])
            for (topic, _), partitions in zip(found, self._commit_all(commit, UNKNOWN, moment), strict=True)
        ]
        self._respond(waiter, TxnOffsetCommitResponse(topics=topics), before)

    def _respond(self, waiter: Waiter, response: object, before: int) -> None:
        output = self._table.output
        if len(output.records) > before:
            output.respond(waiter, response)
        else:
            output.respond_at_once(waiter, response)

    def _commit_all(
        self, commit: _Commit, unknown_topic: ErrorCode, moment: Moment
    ) -> list[list[tuple[int, ErrorCode]]]:
        """Commits what may be committed. Returns the partitions of each topic with their errors."""
        group_error = self._group_error(commit, moment)
        errors = []
        for topic, spec in commit.found:
            partitions = []
            for each in topic.partitions:
                if spec is None:
                    error = unknown_topic
                elif not has_partition(spec, each.partition_index):
                    error = UNKNOWN
                else:
                    error = group_error or self._commit(commit, spec, each, moment)
                partitions.append((each.partition_index, error))
            errors.append(partitions)
        return errors

    def _group_error(self, commit: _Commit, moment: Moment) -> ErrorCode:
        """Returns the error with which the group refuses to commit the partitions that exist."""
        if not any(
            spec and any(has_partition(spec, each.partition_index) for each in topic.partitions)
            for topic, spec in commit.found
        ):
            return ErrorCode.NONE
        if not commit.group_id and commit.producer is not None:
            return ErrorCode.INVALID_GROUP_ID
        group = self._table.groups.get(commit.group_id)
        if group is not None:
            try:
                _check_member(group, commit)
            except KafkaError as error:
                return _in_transaction(error.code) if commit.producer else error.code
            if isinstance(group, ClassicGroup) and commit.producer is None:
                group.on_commit(commit.member_id, moment)
        elif commit.generation >= 0:
            is_new = commit.producer is None and commit.api_version >= NOT_FOUND_FROM
            return ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        metadata_max = self._table.settings(commit.group_id).offset_metadata_bytes_max
        if _bytes_of(commit, metadata_max) > COMMIT_BYTES_MAX:
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        if commit.producer is not None and len(self._offsets.pending) >= PENDING_OFFSETS_MAX:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def _commit(self, commit: _Commit, topic: TopicSpec, asked: _Partition, moment: Moment) -> ErrorCode:
        group_id, partition, expires_ms = commit.group_id, asked.partition_index, commit.expires_ms
        metadata = asked.committed_metadata or ""
        if is_longer(metadata, self._table.settings(group_id).offset_metadata_bytes_max) or (
            expires_ms != NOT_GIVEN and len(metadata.encode()) > EXPIRING_METADATA_BYTES_MAX
        ):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if self._is_fenced(group_id, topic, partition, StoredCommit(asked.committed_offset, metadata)):
            stale = ErrorCode.STALE_MEMBER_EPOCH
            return _in_transaction(stale) if commit.producer else stale
        self._offsets.ensure_group(group_id, moment)
        value = OffsetCommitValue(
            offset=asked.committed_offset,
            metadata=metadata,
            commit_timestamp=moment.now_ms,
            expire_timestamp=expires_ms,
        )
        if expires_ms == NOT_GIVEN:  # the record version with an expiry time has no such fields
            value.leader_epoch = asked.committed_leader_epoch
            value.topic_id = topic.id
        self._offsets.append(OffsetCommitKey(group_id, topic.name, partition), value, commit.producer)
        self._table.output.counts.committed_offsets += 1
        return ErrorCode.NONE

    def _is_fenced(self, group_id: str, topic: TopicSpec, partition: int, commit: StoredCommit) -> bool:
        """Whether the commit comes from a replica of a trigger whose shard another replica has taken over, or claims an
        offset that was the newest only before."""
        committed = self._offsets.committed
        if not committed.metadata_has_prefix(group_id, topic.name, partition, _TRIGGER_PREFIX):
            return False
        stored = committed.get(group_id, topic.name, partition)
        # The epochs of a topic begin again if the topic is deleted and created again.
        if stored is None or stored.topic_id not in (topic.id, NO_UUID):
            return False
        return is_fenced(StoredCommit(stored.offset, stored.metadata), commit)


def is_longer(text: str, length_max: int) -> bool:
    """Compares lengths as Kafka does: in UTF-16 code units. Some characters need two."""
    if text.isascii() or len(text) > length_max:
        return len(text) > length_max
    return len(text) + sum(character > "\uffff" for character in text) > length_max


def has_partition(topic: TopicSpec, partition: int) -> bool:
    return 0 <= partition < len(topic.partitions)


def _check_member(group: Group, commit: _Commit) -> None:
    """Raises KafkaError if the member may not commit now, or not for these partitions."""
    identity = commit.member_id, commit.instance_id, commit.generation, commit.api_version
    is_transactional = commit.producer is not None
    if isinstance(group, ConsumerGroup):
        partitions = (
            TopicPartition(spec.id, each.partition_index)
            for topic, spec in commit.found
            if spec is not None
            for each in topic.partitions
        )
        group.check_commit(*identity, transactional=is_transactional, partitions=partitions)
    else:
        group.check_commit(*identity, transactional=is_transactional)


def _in_transaction(error: ErrorCode) -> ErrorCode:
    """Returns the error for TxnOffsetCommit, whose clients know members by their generation alone."""
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error


def _bytes_of(commit: _Commit, metadata_max: int) -> int:
    """Returns roughly the size of the records of the commit, without metadata that is refused because of its length."""
    size = 0
    for topic, _ in commit.found:
        size += len(topic.partitions) * (_RECORD_BYTES + len(commit.group_id) + len(topic.name))
        lengths = (len(each.committed_metadata or "") for each in topic.partitions)
        size += sum(length for length in lengths if length <= metadata_max)
    return size


def _expires_ms(retention_ms: int, now_ms: int) -> int:
    return NOT_GIVEN if retention_ms == NOT_GIVEN else min(max(now_ms + retention_ms, 0), _TIME_MAX_MS)
