"""What should be here: SPUs, topics and partitions as the source of specs describes them.

Specs never change: the source replaces them by new ones, so whoever holds one may keep it while waiting.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from tailrace.protocol.ids import Epoch, SpuId, TopicId

NOBODY: Mapping[SpuId, str] = MappingProxyType({})


class Endpoint(Struct, frozen=True):
    """Where an SPU is reached by one of its listeners."""

    listener: str
    host: str
    port: int


class SpuSpec(Struct, frozen=True):
    id: SpuId
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    """For clients."""
    online: bool = True
    private: Endpoint | None = None
    """For other SPUs; None: it was never here."""

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class Shelf(Struct, frozen=True):
    """A stretch of a partition's log, all of it committed, that others keep than its replicas: old segments of it."""

    base: int
    end: int
    """Exclusive. Only the last shelf of a partition still grows."""
    stores: tuple[SpuId, ...]
    """Each of them has all of it on its disk."""
    filling: tuple[SpuId, ...] = ()
    """They get it, and take their place among the stores when they have it."""


class PartitionSpec(Struct, frozen=True):
    topic_id: TopicId
    topic: str
    partition: int
    leader: SpuId
    """NO_LEADER while an election is under way."""
    epoch: Epoch
    replicas: tuple[SpuId, ...]
    """The preferred leader first."""
    live_replicas: tuple[SpuId, ...]
    leader_incarnation: str = ""
    """Of the process that the epoch was given to. Only those that hold the partition know this and what follows."""
    live_incarnations: Mapping[SpuId, str] = field(default_factory=lambda: NOBODY)
    """Of the live replicas: each one's store as it was when it was known to have caught up."""
    version: int = 0
    """Of the live replicas: it rises when they change, and when a change was refused."""
    was_unclean: bool = False
    """A leader was elected once that may have lacked something, so logs may part below a high watermark."""
    copy_sets: tuple[tuple[SpuId, ...], ...] = ()
    """While it gets other replicas: those whose copies count, last, and before them the sets that these take over from.
    Empty: all replicas are one set."""
    shelved_from: int = 0
    """Records before are deleted for good, where there are shelves."""
    shelves: tuple[Shelf, ...] = ()
    """In order, each from the end of the one before. The log of a replica begins at or before the end of the last one,
    unless more was deleted for good since."""


class TopicSpec(Struct, frozen=True):
    id: TopicId
    name: str
    configs: Mapping[str, str]
    """Only what the topic sets itself, by Kafka's names; every value is checked and in its canonical form."""
    partitions: tuple[PartitionSpec, ...]
    """By partition number, without a gap."""
    internal: bool = False


NO_LEADER = SpuId(-1)
