"""What OffsetFetch is told of one group's offsets: those it asks for, or all there are."""

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
"""Without metadata, in memory."""


class ReplyRoom:
    """How much more the answer to one request may hold: nothing keeps a client from asking for the same again and
    again."""

    def __init__(self, bytes_max: int) -> None:
        self.left = bytes_max

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the answer would be too large")


def fetch_asked(
    asked: OffsetFetchRequestGroup, committed: CommittedOffsets, cluster: Cluster, by_id: bool, room: ReplyRoom
) -> list[OffsetFetchResponseTopics]:
    """A partition that nothing was committed for has no error: its offset is -1."""
    replies = []
    for topic in asked.topics or ():
        spec = cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name)
        reply = OffsetFetchResponseTopics(topic.name, topic.topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and spec is None else ErrorCode.NONE
        for partition in topic.partition_indexes:
            name = topic.name if spec is None else spec.name
            found = None if error else _fetch(asked.group_id, name, spec, partition, committed, room)
            room.take(_PARTITION_BYTES)
            reply.partitions.append(found or OffsetFetchResponsePartitions(partition, _NO_OFFSET, error_code=error))
        replies.append(reply)
    return replies


def fetch_all(
    asked: OffsetFetchRequestGroup, committed: CommittedOffsets, cluster: Cluster, by_id: bool, room: ReplyRoom
) -> list[OffsetFetchResponseTopics]:
    replies = []
    for name in committed.topics(asked.group_id):
        spec = cluster.topics.get(name)
        if spec is None and by_id:
            continue  # it was deleted, and there is no other way to name it
        reply = OffsetFetchResponseTopics(name, NO_UUID if spec is None else spec.id)
        for partition in committed.partitions(asked.group_id, name):
            found = _fetch(asked.group_id, name, spec, partition, committed, room)
            if found is not None:
                room.take(_PARTITION_BYTES)
                reply.partitions.append(found)
        if reply.partitions:
            replies.append(reply)
    return replies


def _fetch(
    group_id: str, topic: str, spec: TopicSpec | None, partition: int, committed: CommittedOffsets, room: ReplyRoom
) -> OffsetFetchResponsePartitions | None:
    """None also for what was committed for another topic that had this name before."""
    found = committed.get(group_id, topic, partition)
    if found is None or (spec is not None and found.topic_id not in (NO_UUID, spec.id)):
        return None
    room.take(len(found.metadata))
    return OffsetFetchResponsePartitions(partition, found.offset, found.leader_epoch, found.metadata)
