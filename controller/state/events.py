"""The events that readers and other parts of the SC report to the Metadata Dispatcher."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from tailrace.controller.objects.objects import Object, PublicListener
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.runtime.network import Address
from tailrace.security.settings.security_protocol import SecurityProtocol

if TYPE_CHECKING:
    from tailrace.cluster.stream_state.replica_report import ReplicaReport


class Stored(Struct, frozen=True):
    """The KV store has a new object, or a new version of one."""

    object: Object


class Removed(Struct, frozen=True):
    """The KV store no longer has an object."""

    key: str
    """The key of the object."""
    version: int
    """The revision that removed the object."""


class SpuConnected(Struct, frozen=True):
    """The Connection Manager has admitted an SPU and keeps its stream."""

    spu: SpuId
    incarnation: str
    store_incarnation: str
    listeners: tuple[PublicListener, ...]
    private: Address
    private_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class SpuLost(Struct, frozen=True):
    """An SPU's lease has expired, or the SPU has given it back."""

    spu: SpuId
    incarnation: str
    reason: str


class StorageReported(Struct, frozen=True):
    """An SPU's logs have reached its size limit, or there is room again."""

    spu: SpuId
    incarnation: str
    is_full: bool
    used_bytes: int
    size_bytes: int


class LiveReplicasReported(Struct, frozen=True):
    """The leader of a partition reports that it leads, and proposes live replicas."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch
    version: int
    """The version of the stored live replicas from which the leader made this report."""
    members: tuple[tuple[SpuId, str], ...]
    """The proposed live replicas, each with its store incarnation, or "" for the incarnation that is stored.

    Empty if the leader proposes no change and only reports that it leads.
    """
    has_taken_over: bool = False
    """Whether the newest copy set has everything that this epoch began with, so that older sets can be dropped."""


class ShelvesReported(Struct, frozen=True):
    """The leader of a partition reports the state of its shelves."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch
    shelved_from: int
    """The offset before which all records are deleted for good."""
    filled: tuple[tuple[int, SpuId, int], ...] = ()
    """Copies of shelves: the base of the shelf, an SPU, and the end up to which that SPU has the shelf on its disk."""
    next_base: int = -1
    """The offset at which another shelf should begin, or -1 for none."""


class LogEndsReported(Struct, frozen=True):
    """An SPU that was asked for an election has responded with its log ends, or has not responded in time."""

    spu: SpuId
    incarnation: str
    asked: Mapping[tuple[TopicId, int], Epoch]
    """The partitions that the SPU was asked about, each with its epoch at that time."""
    log_ends: Mapping[tuple[TopicId, int], int]
    """The log ends of the replicas that the SPU has and can read."""
    is_busy: bool = False
    """Whether the SPU is still opening the other replicas, so that it is asked again."""


class SpuResponded(Struct, frozen=True):
    """An SPU that did not respond in an election, or after it was elected, responds again."""

    spu: SpuId


class LeaderSilent(Struct, frozen=True):
    """An elected leader has not reported in time that it leads."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch


class ReplicaFailed(Struct, frozen=True):
    """An SPU that leads the partition, or might be elected, reports that its storage has failed and it cannot lead."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch
    """The last epoch in which the replica has led or followed."""


class ReplicaOpened(Struct, frozen=True):
    """A log that had failed, or that could not be opened, works again in the same process."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int


class TriggerReported(Struct, frozen=True):
    """A replica of a trigger reports what it does. The trigger may be one that was not deployed."""

    trigger: str
    replica: str
    report: "ReplicaReport"
    characters: int
    """The length of the report as JSON."""
    at: float
    """The time of the report, by the monotonic clock of this SC."""


class LeaseGracePeriodOver(Struct, frozen=True):
    """Every SPU has had the duration of one lease to connect, and SPUs that did not are offline.

    The period begins when this SC becomes active, and again when the first SPU connects after all were offline.
    """


FailedReplica = tuple[TopicId, int, SpuId]
"""A partition, and the SPU that has or had the failed replica of it."""


class SpusAway(Struct, frozen=True):
    """Some SPUs or disks have been unusable for so long that others should take over what they hold."""

    spus: frozenset[SpuId]
    """The SPUs that have been offline for that time."""
    failed: frozenset[FailedReplica] = frozenset()
    """Replicas on other SPUs whose disks failed as long ago."""


class RebalanceDue(Struct, frozen=True):
    """Leadership should return to the preferred replicas that can lead."""

    failed: frozenset[FailedReplica] = frozenset()
    """Replicas that cannot lead, including those whose logs could not be opened and are retried when elected."""


class ReconciliationDue(Struct, frozen=True):
    """Every object should be checked again."""


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
    | TriggerReported
    | ReconciliationDue
)
