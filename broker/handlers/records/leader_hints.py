"""Where a client that asked the wrong SPU finds the leader, said in the answer itself (KIP-951).

So it need not ask for metadata first. Who took this SPU for the leader is told of nobody where it knows of no later
leader than itself: what it says may be old then, and the client is to ask others.
"""

from uuid import UUID

from tailrace.cluster.client_view import Broker, ConnectedListener, brokers
from tailrace.cluster.specs import NO_LEADER, PartitionSpec

from .record_host import LeaderHintHost


def newest_leader(host: LeaderHintHost, topic: str | UUID, partition: int) -> PartitionSpec | None:
    """The newest that is known here of the partition, if somebody leads it by that."""
    mirrored = host.cluster.partition(topic, partition)
    replica = host.replicas.find(topic, partition)
    # Of one epoch, what was said of the replica here is surer: it may be that no process leads it.
    known = [spec for spec in (None if replica is None else replica.spec, mirrored) if spec is not None]
    newest = max(known, key=lambda spec: spec.epoch, default=None)
    return None if newest is None or newest.leader == NO_LEADER else newest


def leader_elsewhere(host: LeaderHintHost, topic: str | UUID, partition: int) -> PartitionSpec | None:
    """The same, if it is somebody else."""
    newest = newest_leader(host, topic, partition)
    return None if newest is None or newest.leader == host.id else newest


def endpoint_of(host: LeaderHintHost, leader: int, listener: ConnectedListener) -> Broker | None:
    """None: clients on this listener cannot reach it."""
    return next((broker for broker in brokers(host.cluster, host.id, listener) if broker.id == leader), None)
