"""Finds the leader that a response names to a client that asked the wrong SPU (KIP-951).

The client then need not request metadata first. If this SPU knows no later leader than itself, the response names none:
what this SPU knows may be old, and the client should ask another SPU.
"""

from uuid import UUID

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.client_view import Broker, brokers
from tailrace.cluster.specs import NO_LEADER, PartitionSpec

from .record_host import LeaderHintHost


def newest_leader(host: LeaderHintHost, topic: str | UUID, partition: int) -> PartitionSpec | None:
    """Returns the newest known state of the partition, or None if it has no leader in that state."""
    mirrored = host.cluster.partition(topic, partition)
    replica = host.replicas.find(topic, partition)
    # In the same epoch, the spec of the local replica is surer than the mirror: it may say that nothing leads.
    known = [spec for spec in (None if replica is None else replica.spec, mirrored) if spec is not None]
    newest = max(known, key=lambda spec: spec.epoch, default=None)
    return None if newest is None or newest.leader == NO_LEADER else newest


def leader_elsewhere(host: LeaderHintHost, topic: str | UUID, partition: int) -> PartitionSpec | None:
    """Returns the newest known state of the partition if another SPU leads it."""
    newest = newest_leader(host, topic, partition)
    return None if newest is None or newest.leader == host.id else newest


def endpoint_of(host: LeaderHintHost, leader: int, listener: ConnectedListener) -> Broker | None:
    """Returns the address of the leader, or None if clients on this listener cannot reach it."""
    return next((broker for broker in brokers(host.cluster, host.id, listener) if broker.id == leader), None)
