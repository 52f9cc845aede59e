"""What readers report to the Metadata Dispatcher."""

from dataclasses import dataclass

from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.runtime.network import Address

from .objects import Listener, Object


@dataclass(frozen=True, slots=True)
class Stored:
    """The KV store has an object, or another version of it."""

    object: Object


@dataclass(frozen=True, slots=True)
class Removed:
    """The KV store has it no more; `key` is the object's key, `version` the revision that removed it."""

    key: str
    version: int


@dataclass(frozen=True, slots=True)
class SpuConnected:
    """The Connection Manager has authorised an SPU and keeps its stream."""

    spu: SpuId
    incarnation: str
    stopped_cleanly: bool
    """Whether what it has on disk is all that it ever acknowledged."""
    listeners: tuple[Listener, ...]
    private: Address


@dataclass(frozen=True, slots=True)
class SpuLost:
    """Its lease has run out, or it gave it back."""

    spu: SpuId
    incarnation: str
    reason: str


@dataclass(frozen=True, slots=True)
class StorageReported:
    """An SPU's logs have reached its size, or there is room again."""

    spu: SpuId
    incarnation: str
    is_full: bool
    used_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LiveReplicasReported:
    """From the leader of a partition."""

    spu: SpuId
    topic_id: TopicId
    number: int
    epoch: Epoch
    live_replicas: tuple[SpuId, ...]


@dataclass(frozen=True, slots=True)
class LeasesUnknownOver:
    """One lease has passed since this SC became the active one: who has not been heard of by now is offline."""


@dataclass(frozen=True, slots=True)
class ReconciliationDue:
    """Everything is to be looked at again."""


Event = (
    Stored
    | Removed
    | SpuConnected
    | SpuLost
    | StorageReported
    | LiveReplicasReported
    | LeasesUnknownOver
    | ReconciliationDue
)
