"""The specs that the Streaming Controller sends to one SPU: configs, replicas and shelves.

What the SPU knows of the whole cluster for clients comes in other messages: see `MirrorUpdater`.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import TopicId


class HeldTopic(Struct, frozen=True):
    """The part of a topic that one SPU holds."""

    id: TopicId
    name: str
    configs: Mapping[str, str]
    """The configs that the topic sets itself, by Kafka's names."""
    partitions: tuple[PartitionSpec, ...]
    """The partitions with a replica on this SPU. Their numbers may have gaps."""


class HeldSpecs(Struct, frozen=True):
    """The specs of one message: all of them, or those that have changed."""

    is_full: bool
    """Whether the message has all specs, so that this SPU must not hold anything else."""
    topics: tuple[HeldTopic, ...] = ()
    """The topics, with the partitions that have a replica on this SPU."""
    removed: tuple[tuple[TopicId, int], ...] = ()
    """The partitions that no longer have a replica on this SPU."""
    shelved: tuple[PartitionSpec, ...] = ()
    """The partitions with a shelf that this SPU stores or has to fill. It may hold a replica as well."""
    unshelved: tuple[tuple[TopicId, int], ...] = ()
    """The partitions without a shelf on this SPU. It may never have stored one."""
    default_configs: Mapping[str, str] = field(default_factory=dict)
    """The configs that were set at run time for all SPUs. Each message has all of them."""
    own_configs: Mapping[str, str] = field(default_factory=dict)
    """The configs that were set at run time for this SPU."""
    size_bytes: int | None = None
    """The storage limit of the SPU in bytes, or None for no limit except its disk."""

    def named(self) -> Iterator[tuple[TopicId, int]]:
        """Yields the partitions of `topics`."""
        return ((spec.topic_id, spec.partition) for topic in self.topics for spec in topic.partitions)
