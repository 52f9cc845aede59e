"""Builds the OffsetFetch response for one group."""

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


def fetch_requested(
    asked: OffsetFetchRequestGroup, committed: CommittedOffsets, cluster: Cluster, by_id: bool, budget: ResponseBudget
) -> list[OffsetFetchResponseTopics]:
    """Returns the requested offsets. A partition without a committed offset has the offset -1 and no error."""
    responses = []
    for topic in asked.topics or ():
        spec = cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name)
        response = OffsetFetchResponseTopics(topic.name, topic.topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and spec is None else ErrorCode.NONE
        for partition in topic.partition_indexes:
            name = topic.name if spec is None else spec.name
            found = None if error else _fetch(asked.group_id, name, spec, partition, committed, budget)
            budget.take(_PARTITION_BYTES)
            response.partitions.append(found or OffsetFetchResponsePartitions(partition, _NO_OFFSET, error_code=error))
        responses.append(response)
    return responses


def fetch_all(
    asked: OffsetFetchRequestGroup, committed: CommittedOffsets, cluster: Cluster, by_id: bool, budget: ResponseBudget
) -> list[OffsetFetchResponseTopics]:
    """Returns all committed offsets of the group."""
    responses = []
    for name in committed.topics(asked.group_id):
        spec = cluster.topics.get(name)
        if spec is None and by_id:
            continue  # a deleted topic has no id by which the response could name it
        response = OffsetFetchResponseTopics(name, NO_UUID if spec is None else spec.id)
        for partition in committed.partitions(asked.group_id, name):
            found = _fetch(asked.group_id, name, spec, partition, committed, budget)
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
    committed: CommittedOffsets,
    budget: ResponseBudget,
) -> OffsetFetchResponsePartitions | None:
    """Returns the offset, or None if there is none or if it belongs to an earlier topic of this name."""
    found = committed.get(group_id, topic, partition)
    if found is None or (spec is not None and found.topic_id not in (NO_UUID, spec.id)):
        return None
    budget.take(len(found.metadata))
    return OffsetFetchResponsePartitions(partition, found.offset, found.leader_epoch, found.metadata)
