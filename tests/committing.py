"""Short helpers for offset requests to a coordinator without an SPU."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from grouping import Asked, GroupWorld

from tailrace.broker.groups.offsets.offset_fetching import ResponseBudget
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

NEWEST_BY_NAME = 9
BY_ID = 10

Offsets = Mapping[tuple[str, int], int]
Errors = dict[tuple[str, int], int]


def ask_commit(
    world: GroupWorld,
    group: str,
    offsets: Offsets,
    *,
    version: int = NEWEST_BY_NAME,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "",
    leader_epoch: int = -1,
    retention_ms: int = -1,
) -> Asked:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, partition), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition, offset, committed_leader_epoch=leader_epoch, committed_metadata=metadata
            )
        )
    request = OffsetCommitRequest(group, generation, member, instance, retention_ms, list(topics.values()))
    return world.ask(lambda coordinator, moment, waiter: coordinator.offsets.commit(request, version, waiter, moment))


def commit(world: GroupWorld, group: str, offsets: Offsets, **more: object) -> Errors:
    """Commits offsets. Returns the error of each partition."""
    reply = ask_commit(world, group, offsets, **more).reply  # type: ignore[arg-type]
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in reply.topics
        for partition in topic.partitions
    }


def ask_fetch(
    world: GroupWorld,
    group: str,
    partitions: Iterable[tuple[str, int]] | None = None,
    *,
    version: int = NEWEST_BY_NAME,
    member: str | None = None,
    epoch: int = -1,
    ids: Mapping[str, UUID] | None = None,
) -> Asked:
    topics: dict[str, OffsetFetchRequestTopics] = {}
    for name, partition in partitions or ():
        if ids is None:
            topic = topics.setdefault(name, OffsetFetchRequestTopics(name))
        else:
            topic = topics.setdefault(name, OffsetFetchRequestTopics(topic_id=ids[name]))
        topic.partition_indexes.append(partition)
    asked = OffsetFetchRequestGroup(group, member, epoch, None if partitions is None else list(topics.values()))
    return world.ask(
        lambda coordinator, moment, waiter: coordinator.offsets.fetch(
            asked, version, ResponseBudget(1 << 20), waiter, moment
        )
    )


def fetch(world: GroupWorld, group: str, partitions: Iterable[tuple[str, int]] | None = None) -> Offsets:
    """Fetches offsets by partition. A requested partition without an offset has -1."""
    reply = ask_fetch(world, group, partitions).reply
    assert all(not each.error_code for topic in reply.topics for each in topic.partitions)
    return {
        (topic.name, each.partition_index): each.committed_offset for topic in reply.topics for each in topic.partitions
    }


def ask_delete(world: GroupWorld, group: str, partitions: Iterable[tuple[str, int]]) -> Asked:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for name, partition in partitions:
        topic = topics.setdefault(name, OffsetDeleteRequestTopic(name))
        topic.partitions.append(OffsetDeleteRequestPartition(partition))
    request = OffsetDeleteRequest(group, list(topics.values()))
    return world.ask(lambda coordinator, moment, waiter: coordinator.offsets.delete(request, waiter))


def delete(world: GroupWorld, group: str, partitions: Iterable[tuple[str, int]]) -> Errors:
    reply = ask_delete(world, group, partitions).reply
    return {(topic.name, each.partition_index): each.error_code for topic in reply.topics for each in topic.partitions}
