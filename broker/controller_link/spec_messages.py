"""Converts the messages of the Streaming Controller to specs, and proposals to messages."""

from collections.abc import Iterable
from sys import intern
from typing import Protocol

from tailrace.broker.replication.messages import ProposeLiveReplicas
from tailrace.cluster.shelf_lookup import has_shelf
from tailrace.cluster.specs import Endpoint, PartitionSpec, Shelf, SpuSpec, TopicSpec, WaitingTopic
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal import apply_metadata, apply_specs, report_live_replicas

from .held_specs import HeldSpecs, HeldTopic

PRIVATE = "PRIVATE"
"""The name of the listener for other SPUs."""


class _Config(Protocol):
    name: str
    value: str


def held_specs(message: apply_specs.ApplySpecsRequest, spu: SpuId) -> HeldSpecs:
    """Returns the specs for this SPU.

    A partition is in the message if this SPU has a replica or a shelf of it, or had one. If its spec no longer names
    this SPU for one of them, that one is removed.
    """
    topics: list[HeldTopic] = []
    shelved: list[PartitionSpec] = []
    removed = [(each.topic_id, each.partition) for each in message.removed]
    unshelved = removed.copy()
    for topic in message.topics:
        specs = [_held_partition(topic, each) for each in topic.partitions]
        held = tuple(spec for spec in specs if spu in spec.replicas)
        if held or not specs:
            topics.append(HeldTopic(topic.topic_id, topic.name, configs_of(topic.configs), held))
        removed += [_key(spec) for spec in specs if spu not in spec.replicas]
        shelved += [spec for spec in specs if has_shelf(spec, spu)]
        unshelved += [_key(spec) for spec in specs if not has_shelf(spec, spu)]
    return HeldSpecs(
        is_full=message.is_full,
        topics=tuple(topics),
        removed=tuple(removed),
        shelved=tuple(shelved),
        unshelved=tuple(unshelved),
        default_configs=configs_of(message.default_configs),
        own_configs=configs_of(message.own_configs),
        size_bytes=None if message.size_bytes < 0 else message.size_bytes,
    )


def waiting_topic(topic: apply_metadata.WaitingTopic) -> WaitingTopic:
    return WaitingTopic(topic.topic_id, topic.name, topic.error_code)


def spu_spec(spu: apply_metadata.SpuState) -> SpuSpec:
    endpoints = tuple(Endpoint(each.name, each.host, each.port, each.on_all_addresses) for each in spu.endpoints)
    private = Endpoint(PRIVATE, spu.private_host, spu.private_port) if spu.private_host else None
    return SpuSpec(SpuId(spu.id), spu.rack, endpoints, spu.is_online, private)


def with_known_objects(specs: Iterable[PartitionSpec], known: Iterable[PartitionSpec]) -> list[PartitionSpec]:
    """Returns the specs; those that have not changed are the same objects as in `known`.

    Each reconciliation repeats all specs. The mirror, the dispatcher and the replicas then share one object per spec.
    """
    by_number = {each.partition: each for each in known}
    return [by_number[each.partition] if by_number.get(each.partition) == each else each for each in specs]


def topic_spec(topic: apply_metadata.TopicState, before: TopicSpec | None = None) -> TopicSpec:
    """Returns the topic of the message. `before` is the known topic, for messages with some of the partitions.

    Raises RemoteProtocolError if a partition is missing, because partitions are found by their index.
    """
    if topic.is_whole:
        partitions = sorted((_partition(topic, each) for each in topic.partitions), key=lambda each: each.partition)
    else:
        partitions = [] if before is None else list(before.partitions)
        for each in topic.partitions:
            if not 0 <= each.partition < len(partitions):
                raise RemoteProtocolError(f"the metadata of {topic.name} changes a partition that does not exist")
            partitions[each.partition] = _partition(topic, each)
    if before is not None:
        partitions = with_known_objects(partitions, before.partitions)
    if [each.partition for each in partitions] != list(range(len(partitions))):
        raise RemoteProtocolError(f"the metadata of {topic.name} lacks a partition")
    return TopicSpec(topic.topic_id, topic.name, configs_of(topic.configs), tuple(partitions), topic.is_internal)


def reported_partition(
    key: tuple[TopicId, int], proposal: ProposeLiveReplicas
) -> report_live_replicas.ReportedPartition:
    topic_id, partition = key
    members = [report_live_replicas.Member(spu, incarnation) for spu, incarnation in proposal.members]
    return report_live_replicas.ReportedPartition(
        topic_id, partition, proposal.epoch, proposal.version, members, has_taken_over=proposal.has_taken_over
    )


def _held_partition(topic: apply_specs.TopicState, partition: apply_specs.PartitionState) -> PartitionSpec:
    # Interned, because thousands of partitions name the same few incarnations.
    incarnations = {SpuId(each.spu_id): intern(each.incarnation) for each in partition.live_replicas}
    return PartitionSpec(
        topic.topic_id,
        topic.name,
        partition.partition,
        SpuId(partition.leader),
        Epoch(partition.epoch),
        tuple(map(SpuId, partition.replicas)),
        tuple(incarnations),
        intern(partition.leader_incarnation),
        incarnations,
        partition.version,
        partition.was_unclean,
        tuple(tuple(map(SpuId, each.spu_ids)) for each in partition.copy_sets),
        partition.shelved_from,
        tuple(
            Shelf(each.base, each.end, tuple(map(SpuId, each.stores)), tuple(map(SpuId, each.filling)))
            for each in partition.shelves
        ),
    )


def _key(spec: PartitionSpec) -> tuple[TopicId, int]:
    return spec.topic_id, spec.partition


def _partition(topic: apply_metadata.TopicState, partition: apply_metadata.PartitionState) -> PartitionSpec:
    return PartitionSpec(
        topic.topic_id,
        topic.name,
        partition.partition,
        SpuId(partition.leader),
        Epoch(partition.epoch),
        tuple(map(SpuId, partition.replicas)),
        tuple(map(SpuId, partition.live_replicas)),
    )


def configs_of(configs: Iterable[_Config]) -> dict[str, str]:
    return {config.name: config.value for config in configs}
