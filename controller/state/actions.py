"""The actions that controllers decide on.

The Action Dispatcher hands each to the updater for its destination.
"""

from msgspec import Struct

from tailrace.controller.objects.objects import Object, Partition, Spu
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.runtime.network import Address


class Put(Struct, frozen=True):
    """Writes an object to the KV store if the store still has the object's version. Version 0 stands for no object."""

    object: Object


class Delete(Struct, frozen=True):
    """Deletes an object from the KV store if the store still has the object's version."""

    object: Object


class WithdrawStatus(Struct, frozen=True):
    """Drops a waiting write of another status for this SPU, because the stored status is right.

    A write waits for long only while the KV store does not respond.
    """

    spu: Spu


class AddSpu(Struct, frozen=True):
    """Lets an SPU connect from now on. For the Connection Manager."""

    spu: Spu


class UpdateSpu(Struct, frozen=True):
    """Replaces the object of an SPU that may connect. For the Connection Manager."""

    spu: Spu


class DeleteSpu(Struct, frozen=True):
    """Closes the connection of an SPU and refuses further ones. For the Connection Manager."""

    spu: SpuId


class AddPartition(Struct, frozen=True):
    """Sends a new partition to the SPUs that hold it. For the Connection Manager."""

    partition: Partition


class UpdatePartition(Struct, frozen=True):
    """Sends a changed partition to the SPUs that hold it or held it. For the Connection Manager."""

    partition: Partition


class DeletePartition(Struct, frozen=True):
    """Tells the SPUs that held a partition to remove it. For the Connection Manager."""

    topic_id: TopicId
    number: int


class AskLogEnd(Struct, frozen=True):
    """Asks one process of an SPU for the log end of its replica, for the election that ends `epoch`."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch


class AwaitLeader(Struct, frozen=True):
    """Watches whether the process that was elected for `epoch` reports in time that it leads."""

    spu: SpuId
    incarnation: str
    topic_id: TopicId
    number: int
    epoch: Epoch


class Provision(Struct, frozen=True):
    """Makes a managed SPU run as its spec says. For the provisioner."""

    spu: Spu


class Terminate(Struct, frozen=True):
    """Stops a managed SPU for good. For the provisioner."""

    spu: SpuId


class KeepReplica(Struct, frozen=True):
    """Keeps a replica of a trigger running, in this revision. For the provisioner."""

    trigger: str
    replica: str
    revision: int
    python: str | None
    """The Python interpreter for the replica; None for that of the provisioner."""
    metrics: Address | None = None
    """Where the replica serves its metrics; None without metrics."""


class DropReplica(Struct, frozen=True):
    """Stops a replica of a trigger for good. For the provisioner."""

    trigger: str
    replica: str


class ForgetReplicas(Struct, frozen=True):
    """Removes what is kept of the replicas of a deleted trigger, when they have ended. For the provisioner."""

    trigger: str


KvAction = Put | Delete
ConnectionAction = AddSpu | UpdateSpu | DeleteSpu | AddPartition | UpdatePartition | DeletePartition
ProvisionerAction = Provision | Terminate
ReplicaAction = KeepReplica | DropReplica | ForgetReplicas
ElectionAction = AskLogEnd | AwaitLeader
Action = KvAction | WithdrawStatus | ConnectionAction | ProvisionerAction | ReplicaAction | ElectionAction
