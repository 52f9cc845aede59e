"""What readers report to the Metadata Dispatcher."""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.controller.objects.objects import Object, PublicListener
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.runtime.network import Address


class Stored(Struct, frozen=True):
    """The KV store has an object, or another version of it."""

    object: Object


class Removed(Struct, frozen=True):
    """The KV store has it no more; `key` is the object's key, `version` the revision that removed it."""

    key: str
    version: int


class SpuConnected(Struct, frozen=True):
    """The Connection Manager has authorised an SPU and keeps its stream."""

    spu: SpuId
    incarnation: str
    store_incarnation: str
    listeners: tuple[PublicListener, ...]
    private: Address


class SpuLost(Struct, frozen=True):
    """Its lease has run out, or it gave it back."""

    spu: SpuId
    incarnation: str
    reason: str


class StorageReported(Struct, frozen=True):
    """An SPU's logs have reached its size, or there is room again."""

    spu: SpuId
    incarnation: str
    is_full: bool
    used_bytes: int
    size_bytes: int


class LiveReplicasReported(Struct, frozen=True):
    """From the leader of a partition."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch
    version: int
    """Of the live replicas from which this was made."""
    members: tuple[tuple[SpuId, str], ...]
    """The live replicas, each with the incarnation of its store, or "" for the one that is stored; none: the sender
    leads, and they are as they are stored."""
    has_taken_over: bool = False
    """Those whose copies count have all that this epoch began with: the sets before are needed no more."""


class ShelvesReported(Struct, frozen=True):
    """From the leader of a partition."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch
    shelved_from: int
    """Records before are deleted for good."""
    filled: tuple[tuple[int, SpuId, int], ...] = ()
    """Where a shelf begins, an SPU, and up to where that has it on its disk."""
    next_base: int = -1
    """Where another shelf is to begin; -1: nowhere."""


class LogEndsReported(Struct, frozen=True):
    """From an SPU that was asked for an election, or that did not answer."""

    spu: SpuId
    incarnation: str
    asked: Mapping[tuple[TopicId, int], Epoch]
    """The partitions, each with its epoch then."""
    log_ends: Mapping[tuple[TopicId, int], int]
    """Of those that it has, and can read."""
    is_busy: bool = False
    """The others are not opened yet: it is still being asked."""


class SpuResponded(Struct, frozen=True):
    """An SPU that was silent when it was asked for an election, or elected, can be asked again."""

    spu: SpuId


class LeaderSilent(Struct, frozen=True):
    """Who was elected has not reported in time."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch


class ReplicaFailed(Struct, frozen=True):
    """An SPU that leads the partition, or might be elected, says that it cannot lead: its storage has failed."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch
    """It has led, or followed, in this one last."""


class ReplicaOpened(Struct, frozen=True):
    """A log that had failed, or did not open, is well again, in the same process."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int


class LeaseGracePeriodOver(Struct, frozen=True):
    """One lease has passed since this SC became the active one, or since the first SPU came when there was none: who
    has not been heard of by now is offline."""


FailedReplica = tuple[TopicId, int, SpuId]
"""The partition, and the SPU that has or had it."""


class SpusAway(Struct, frozen=True):
    """Those that have been offline for so long that others are to have what they hold."""

    spus: frozenset[SpuId]
    failed: frozenset[FailedReplica] = frozenset()
    """And replicas of others, the disks of which failed as long ago."""


class RebalanceDue(Struct, frozen=True):
    """Preferred replicas that could lead are to lead."""

    failed: frozenset[FailedReplica] = frozenset()
    """These could not: also those whose logs did not open, which are tried again when they are elected."""


class ReconciliationDue(Struct, frozen=True):
    """Everything is to be looked at again."""


Event = (
    Stored
    | Removed
    | SpuConnected
    | SpuLost
    | StorageReported
    | LiveReplicasReported
    | ShelvesReported
    | LogEndsReported
    | SpuResponded
    | LeaderSilent
    | ReplicaFailed
    | ReplicaOpened
    | LeaseGracePeriodOver
    | SpusAway
    | RebalanceDue
    | ReconciliationDue
)
