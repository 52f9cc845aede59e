"""What controllers ask for; the Action Dispatcher hands each to the updater that owns its destination."""

from msgspec import Struct

from tailrace.controller.objects.objects import Object, Partition, Spu
from tailrace.protocol.ids import Epoch, SpuId, TopicId


class Put(Struct, frozen=True):
    """To the KV store, if it still has the object's version; 0: if it has none."""

    object: Object


class Delete(Struct, frozen=True):
    """From the KV store, if it still has the object's version."""

    object: Object


class WithdrawStatus(Struct, frozen=True):
    """Of the KV store: the status that this SPU has there is right. Another one may wait to be written, if the store
    did not answer in between."""

    spu: Spu


class AddSpu(Struct, frozen=True):
    """To the Connection Manager: from now on this SPU may connect."""

    spu: Spu


class UpdateSpu(Struct, frozen=True):
    spu: Spu


class DeleteSpu(Struct, frozen=True):
    """Its connection is closed."""

    spu: SpuId


class AddPartition(Struct, frozen=True):
    """To the Connection Manager, which tells the SPUs that hold it."""

    partition: Partition


class UpdatePartition(Struct, frozen=True):
    partition: Partition


class DeletePartition(Struct, frozen=True):
    topic_id: TopicId
    number: int


class AskLogEnd(Struct, frozen=True):
    """To an SPU, in that process: how far its replica goes, for the election that follows the epoch."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch


class AwaitLeader(Struct, frozen=True):
    """Who was elected for the epoch is to report in time."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch


class Provision(Struct, frozen=True):
    """To the provisioner: this managed SPU is to run as its spec says."""

    spu: Spu


class Terminate(Struct, frozen=True):
    """To the provisioner: this managed SPU is to run no more."""

    spu: SpuId


KvAction = Put | Delete
ConnectionAction = AddSpu | UpdateSpu | DeleteSpu | AddPartition | UpdatePartition | DeletePartition
ProvisionerAction = Provision | Terminate
ElectionAction = AskLogEnd | AwaitLeader
Action = KvAction | WithdrawStatus | ConnectionAction | ProvisionerAction | ElectionAction
