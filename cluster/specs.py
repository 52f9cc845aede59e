"""The specs of SPUs, topics and partitions, as their source describes them.

A spec never changes: its source replaces it with a new one. A task may therefore keep a spec while it waits.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct, field

from tailrace.protocol.ids import Epoch, SpuId, TopicId

NO_INCARNATIONS: Mapping[SpuId, str] = MappingProxyType({})


class TopicPartition(NamedTuple):
    """A partition, by the name of its topic. Transactions name partitions this way."""

    topic: str
    partition: int


class Endpoint(Struct, frozen=True):
    """The address of one listener of an SPU."""

    listener: str
    host: str
    port: int
    on_all_addresses: bool = False
    """Whether the SPU listens on all addresses of its machine.

    Then `host` is the address from which the SPU connects to the Streaming Controller.
    """


class SpuSpec(Struct, frozen=True):
    """An SPU as other servers and clients see it."""

    id: SpuId
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    """The addresses for clients."""
    online: bool = True
    private: Endpoint | None = None
    """The address for other SPUs; None until the SPU has connected to the SC for the first time."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Returns the address of the listener with this name, if the SPU has it."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class Shelf(Struct, frozen=True):
    """A range of old, committed segments of a partition, stored on SPUs that hold no replica of it."""

    base: int
    end: int
    """The offset after the last record. Only the last shelf of a partition still grows."""
    stores: tuple[SpuId, ...]
    """The SPUs that have the whole shelf on their disks."""
    filling: tuple[SpuId, ...] = ()
    """The SPUs that are still copying the shelf; they become stores when they have all of it."""


class PartitionSpec(Struct, frozen=True):
    """A partition: its replicas, leader and shelves."""

    topic_id: TopicId
    topic: str
    partition: int
    leader: SpuId
    """The leader; NO_LEADER during an election."""
    epoch: Epoch
    replicas: tuple[SpuId, ...]
    """All replicas, the preferred leader first."""
    live_replicas: tuple[SpuId, ...]
    """The live replica set."""
    leader_incarnation: str = ""
    """The process of the leader to which the epoch was given.

    Only SPUs that hold the partition are sent this field and the following ones.
    """
    live_incarnations: Mapping[SpuId, str] = field(default_factory=lambda: NO_INCARNATIONS)
    """The store incarnation of each live replica when it was known to have caught up."""
    version: int = 0
    """The live version: a number that rises when the live replicas change, or a change was refused."""
    was_unclean: bool = False
    """Whether there was an unclean election, so that logs may differ below a high watermark."""
    copy_sets: tuple[tuple[SpuId, ...], ...] = ()
    """The copy sets while the replicas are being changed: the new one last, after those from which it takes over.

    If this is empty, all replicas are the only copy set.
    """
    shelved_from: int = 0
    """The log start of a partition with shelves: all earlier records are deleted for good."""
    shelves: tuple[Shelf, ...] = ()
    """The shelves in order, without gaps.

    The log of a replica begins at or before the end of the last shelf, unless more records were deleted for good since.
    """


class TopicSpec(Struct, frozen=True):
    """A topic with its configs and partitions."""

    id: TopicId
    name: str
    configs: Mapping[str, str]
    """The configs that the topic sets itself, by Kafka's names; all values are valid and in canonical form."""
    partitions: tuple[PartitionSpec, ...]
    """The partitions by number, without a gap."""
    internal: bool = False


class WaitingTopic(Struct, frozen=True):
    """A topic that is stored, but that no client can use yet: it waits for SPUs, or for a person who corrects it."""

    id: TopicId
    name: str
    error: int
    """The error code that tells clients why."""


NO_LEADER = SpuId(-1)
