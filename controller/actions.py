"""What controllers ask for; the Action Dispatcher hands each to the updater that owns its destination."""

from dataclasses import dataclass

from tailrace.protocol.ids import Epoch, SpuId, TopicId

from .objects import Object, Partition, Spu


@dataclass(frozen=True, slots=True)
class Put:
    """To the KV store, if it still has the object's version; 0: if it has none."""

    object: Object


@dataclass(frozen=True, slots=True)
class Delete:
    """From the KV store, if it still has the object's version."""

    object: Object


@dataclass(frozen=True, slots=True)
class WithdrawStatus:
    """Of the KV store: the status that this SPU has there is right. Another one may wait to be written, if the store
    did not answer in between."""

    spu: Spu


@dataclass(frozen=True, slots=True)
class AddSpu:
    """To the Connection Manager: from now on this SPU may connect."""

    spu: Spu


@dataclass(frozen=True, slots=True)
class UpdateSpu:
    spu: Spu


@dataclass(frozen=True, slots=True)
class DeleteSpu:
    """Its connection is closed."""

    spu: SpuId


@dataclass(frozen=True, slots=True)
class AddPartition:
    """To the Connection Manager, which tells the SPUs that hold it."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class UpdatePartition:
    partition: Partition


@dataclass(frozen=True, slots=True)
class DeletePartition:
    topic_id: TopicId
    number: int


@dataclass(frozen=True, slots=True)
class AskLogEnd:
    """To an SPU, in that process: how far its replica goes, for the election that follows the epoch."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class AwaitLeader:
    """Who was elected for the epoch is to report in time."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Provision:
    """To the provisioner: this managed SPU is to run as its spec says."""

    spu: Spu


@dataclass(frozen=True, slots=True)
class Terminate:
    """To the provisioner: this managed SPU is to run no more."""

    spu: SpuId


KvAction = Put | Delete
ConnectionAction = AddSpu | UpdateSpu | DeleteSpu | AddPartition | UpdatePartition | DeletePartition
ProvisionerAction = Provision | Terminate
ElectionAction = AskLogEnd | AwaitLeader
Action = KvAction | WithdrawStatus | ConnectionAction | ProvisionerAction | ElectionAction
