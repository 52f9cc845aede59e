"""What the Streaming Controller says this SPU is to be: its configs, the partitions it has replicas of, and those of
which it keeps shelves. No more than that.

What clients are told about the whole cluster is another matter, and comes another way: see the cluster mirror.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import TopicId


class HeldTopic(Struct, frozen=True):
    """The part of a topic that lies on one SPU."""

    id: TopicId
    name: str
    configs: Mapping[str, str]
    """Only what the topic sets itself, by Kafka's names."""
    partitions: tuple[PartitionSpec, ...]
    """In any number, with gaps: the others lie elsewhere."""


class HeldSpecs(Struct, frozen=True):
    """One message's worth: everything, or what has changed."""

    is_full: bool
    """What is not named is not to be here."""
    topics: tuple[HeldTopic, ...] = ()
    """With the partitions of which there is to be a replica here."""
    removed: tuple[tuple[TopicId, int], ...] = ()
    """Of these there is to be none any more."""
    shelved: tuple[PartitionSpec, ...] = ()
    """Those of which this SPU keeps a shelf, or is to get one. It may have a replica as well, or not."""
    unshelved: tuple[tuple[TopicId, int], ...] = ()
    """Of these it is to keep none, whether it ever did or not."""
    default_configs: Mapping[str, str] = field(default_factory=dict)
    """Set at run time for all SPUs; always the whole of them."""
    own_configs: Mapping[str, str] = field(default_factory=dict)
    """Set at run time for this one."""
    size_bytes: int | None = None
    """How much the SPU may store; None: as much as its disk takes."""

    def named(self) -> Iterator[tuple[TopicId, int]]:
        """Of what there is to be a replica here."""
        return ((spec.topic_id, spec.partition) for topic in self.topics for spec in topic.partitions)
