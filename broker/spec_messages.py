"""What the Streaming Controller's messages say, as specs."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from tailrace.cluster.specs import Endpoint, PartitionSpec, SpuSpec, TopicSpec
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal import apply_metadata, apply_specs

from .held_specs import HeldSpecs, HeldTopic


class _Partition(Protocol):
    partition: int
    leader: int
    epoch: int
    replicas: list[int]
    live_replicas: list[int]


class _Config(Protocol):
    name: str
    value: str


def held_specs(message: apply_specs.ApplySpecsRequest) -> HeldSpecs:
    return HeldSpecs(
        is_full=message.is_full,
        topics=tuple(
            HeldTopic(
                topic.topic_id,
                topic.name,
                _configs(topic.configs),
                _partitions(topic.topic_id, topic.name, topic.partitions),
            )
            for topic in message.topics
        ),
        removed=tuple((removed.topic_id, removed.partition) for removed in message.removed),
        default_configs=_configs(message.default_configs),
        own_configs=_configs(message.own_configs),
        size_bytes=None if message.size_bytes < 0 else message.size_bytes,
    )


def spu_spec(spu: apply_metadata.SpuState) -> SpuSpec:
    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in spu.endpoints)
    return SpuSpec(SpuId(spu.id), spu.rack, endpoints, online=spu.is_online)


def topic_spec(topic: apply_metadata.TopicState) -> TopicSpec:
    """Raises RemoteProtocolError unless the partitions are all there: clients are answered by their place."""
    partitions = sorted(_partitions(topic.topic_id, topic.name, topic.partitions), key=lambda each: each.partition)
    if [each.partition for each in partitions] != list(range(len(partitions))):
        raise RemoteProtocolError(f"the metadata of {topic.name} lack a partition")
    return TopicSpec(topic.topic_id, topic.name, _configs(topic.configs), tuple(partitions), topic.is_internal)


def _partitions(topic_id: TopicId, topic: str, partitions: Sequence[_Partition]) -> tuple[PartitionSpec, ...]:
    return tuple(
        PartitionSpec(
            topic_id,
            topic,
            each.partition,
            SpuId(each.leader),
            Epoch(each.epoch),
            tuple(map(SpuId, each.replicas)),
            tuple(map(SpuId, each.live_replicas)),
        )
        for each in partitions
    )


def _configs(configs: Iterable[_Config]) -> dict[str, str]:
    return {config.name: config.value for config in configs}
