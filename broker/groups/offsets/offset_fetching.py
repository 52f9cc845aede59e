"""Builds the OffsetFetch response for one group."""

from typing import NamedTuple

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.codec.primitives import NO_UUID
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

from .committed_offsets import CommittedOffsets
from .pending_offsets import PendingOffsets

_NO_OFFSET = -1
_PARTITION_BYTES = 64
"""The size of a partition in memory, without metadata."""


class ResponseBudget:
    """How many bytes one response may still take. A request may name the same offset again and again."""

    def __init__(self, bytes_max: int) -> None:
        self.left = bytes_max

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the response would be too large: request fewer offsets")


class FetchableOffsets(NamedTuple):
    """The offsets from which a request is answered."""

    committed: CommittedOffsets
    pending: PendingOffsets | None
    """The offsets of open transactions; None if the client does not require stable offsets."""

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Returns whether the client must wait for the end of a transaction."""
        return self.pending is not None and self.pending.has(group_id, topic, partition)


def fetch_offsets(
    asked: OffsetFetchRequestGroup, offsets: FetchableOffsets, cluster: Cluster, budget: ResponseBudget, *, by_id: bool
) -> list[OffsetFetchResponseTopics]:
    """Returns the requested offsets, or all offsets of the group."""
    fetch = _fetch_all if asked.topics is None else _fetch_requested
    return fetch(asked, offsets, cluster, by_id, budget)


def is_unstable(asked: OffsetFetchRequestGroup, offsets: FetchableOffsets, cluster: Cluster, *, by_id: bool) -> bool:
    """Returns whether the response would refuse a partition because of an open transaction."""
    if offsets.pending is None or asked.group_id not in offsets.pending:
        return False
    if asked.topics is None:
        return any(
            offsets.committed.get(asked.group_id, *place) is not None
            for place in offsets.pending.partitions(asked.group_id)
        )
    for topic in asked.topics:
        spec = cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name)
        name = topic.name if spec is None else spec.name
        if any(offsets.is_unstable(asked.group_id, name, partition) for partition in topic.partition_indexes):
            return True
    return False


def _fetch_requested(
    asked: OffsetFetchRequestGroup, offsets: FetchableOffsets, cluster: Cluster, by_id: bool, budget: ResponseBudget
) -> list[OffsetFetchResponseTopics]:
    """Returns the requested offsets. A partition without a committed offset has the offset -1 and no error."""
    responses = []
    for topic in asked.topics or ():
        spec = cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name)
        response = OffsetFetchResponseTopics(topic.name, topic.topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and spec is None else ErrorCode.NONE
        for partition in topic.partition_indexes:
            name = topic.name if spec is None else spec.name
            found = None if error else _fetch(asked.group_id, name, spec, partition, offsets, budget)
            budget.take(_PARTITION_BYTES)
            response.partitions.append(found or OffsetFetchResponsePartitions(partition, _NO_OFFSET, error_code=error))
        responses.append(response)
    return responses


def _fetch_all(
    asked: OffsetFetchRequestGroup, offsets: FetchableOffsets, cluster: Cluster, by_id: bool, budget: ResponseBudget
) -> list[OffsetFetchResponseTopics]:
    """Returns all committed offsets of the group."""
    committed, responses = offsets.committed, []
    for name in committed.topics(asked.group_id):
        spec = cluster.topics.get(name)
        if spec is None and by_id:
            continue  # a deleted topic has no id by which the response could name it
        response = OffsetFetchResponseTopics(name, NO_UUID if spec is None else spec.id)
        for partition in committed.partitions(asked.group_id, name):
            found = _fetch(asked.group_id, name, spec, partition, offsets, budget)
            if found is not None:
                budget.take(_PARTITION_BYTES)
                response.partitions.append(found)
        if response.partitions:
            responses.append(response)
    return responses


def _fetch(
    group_id: str,
    topic: str,
    spec: TopicSpec | None,
    partition: int,
    offsets: FetchableOffsets,
    budget: ResponseBudget,
) -> OffsetFetchResponsePartitions | None:
    """Returns the offset, or None if there is none or if it belongs to an earlier topic of this name."""
    if offsets.is_unstable(group_id, topic, partition):
        return OffsetFetchResponsePartitions(partition, _NO_OFFSET, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    found = offsets.committed.get(group_id, topic, partition)
    if found is None or (spec is not None and found.topic_id not in (NO_UUID, spec.id)):
        return None
    budget.take(len(found.metadata))
    return OffsetFetchResponsePartitions(partition, found.offset, found.leader_epoch, found.metadata)
