"""Where a client that asked the wrong SPU finds the leader, said in the answer itself (KIP-951).

So it need not ask for metadata first. Who took this SPU for the leader is told of nobody where it knows of no later
leader than itself: what it says may be old then, and the client is to ask others.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from tailrace.cluster.client_view import Broker, ConnectedListener, brokers
from tailrace.cluster.specs import NO_LEADER, PartitionSpec

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


def newest_leader(spu: "Spu", topic: str | UUID, partition: int) -> PartitionSpec | None:
    """The newest that is known here of the partition, if somebody leads it by that."""
    mirrored = spu.cluster.partition(topic, partition)
    replica = spu.replicas.find(topic, partition)
    # Of one epoch, what was said of the replica here is surer: it may be that no process leads it.
    known = [spec for spec in (None if replica is None else replica.spec, mirrored) if spec is not None]
    newest = max(known, key=lambda spec: spec.epoch, default=None)
    return None if newest is None or newest.leader == NO_LEADER else newest


def leader_elsewhere(spu: "Spu", topic: str | UUID, partition: int) -> PartitionSpec | None:
    """The same, if it is somebody else."""
    newest = newest_leader(spu, topic, partition)
    return None if newest is None or newest.leader == spu.id else newest


def endpoint_of(spu: "Spu", leader: int, listener: ConnectedListener) -> Broker | None:
    """None: clients on this listener cannot reach it."""
    return next((broker for broker in brokers(spu.cluster, spu.id, listener) if broker.id == leader), None)
