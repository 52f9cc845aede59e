"""Derives what clients are told about SPUs, topics, leaders and replicas, the same for all requests."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId

from .advertised_addresses import ConnectedListener, address_of
from .cluster import NO_CONTROLLER, Cluster
from .specs import NO_LEADER, PartitionSpec
from .topic_names import check_topic_name

TOPIC_OPERATIONS = 0b1101_1111_1000
"""The operations on a topic that a client may do, which are all because there is no access control.

They are read, write, create, delete, alter, describe, describe configs and alter configs.
"""
CLUSTER_OPERATIONS = 0b1_1111_1010_0000
"""The operations on the cluster: create, alter, describe, cluster action, the two for configs, idempotent write."""
GROUP_OPERATIONS = 0b1101_0100_1000
"""The operations on a group: read, delete, describe and the two for configs."""
OPERATIONS_UNKNOWN = -(2**31)
NAMED_SECONDS = 9.0
"""How long clients are still told the address of an SPU that went offline: as long as Kafka takes to miss a broker.

Most SPUs return sooner, and clients lose time if they drop a broker and its connections during an election.
"""


class Broker(NamedTuple):
    """An SPU with its address for clients of a certain listener."""

    id: SpuId
    host: str
    port: int
    rack: str | None


def brokers(
    cluster: Cluster, this: SpuId, listener: ConnectedListener, *, lost_since: float = math.inf
) -> list[Broker]:
    """Returns the SPUs that a client of this listener can reach, in the order of their ids.

    SPUs that went offline at or after `lost_since` are included.
    """
    found = []
    for spu_id in sorted(cluster.spus):
        spu = cluster.spus[spu_id]
        is_this = spu_id == this
        if spu.online or is_this or cluster.lost_at.get(spu_id, -math.inf) >= lost_since:
            endpoint = address_of(spu, listener, is_this=is_this, machine_hosts=cluster.machine_hosts)
            if endpoint is not None:
                found.append(Broker(spu_id, endpoint.host, endpoint.port, spu.rack))
    return found


def controller_told(cluster: Cluster, named: Sequence[Broker]) -> SpuId:
    """Returns the SPU to which the client should send admin requests: one of the brokers that the response names.

    Every SPU forwards these requests, so any online one serves if the client cannot reach the usual one.
    """
    if any(broker.id == cluster.controller_id for broker in named):
        return cluster.controller_id
    return min((broker.id for broker in named if cluster.spus[broker.id].online), default=NO_CONTROLLER)


def online_spus(cluster: Cluster) -> frozenset[SpuId]:
    """Returns the SPUs that are online; a handler calls this once per request and passes it to the functions below."""
    return frozenset(spu.id for spu in cluster.spus.values() if spu.online)


def reachable_spus(
    cluster: Cluster, this: SpuId, listener: ConnectedListener, online: frozenset[SpuId]
) -> frozenset[SpuId]:
    """Returns the online SPUs that a client of this listener can reach: all of them, unless one lacks the listener."""
    return frozenset(spu for spu in online if address_of(cluster.spus[spu], listener, is_this=spu == this) is not None)


def missing_topic_error(cluster: Cluster, name: str) -> int:
    """Returns the error code for a topic that no client can use: it waits, its name is invalid, or it is unknown."""
    waiting = cluster.waiting_topics.get(name)
    if waiting is not None:
        return waiting.error
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def offline_replicas(reachable: frozenset[SpuId], partition: PartitionSpec) -> list[int]:
    """Returns the replicas on SPUs that are offline, or that the client cannot reach."""
    if reachable.issuperset(partition.replicas):
        return []
    return [spu for spu in partition.replicas if spu not in reachable]


def leader_error(online: frozenset[SpuId], reachable: frozenset[SpuId], partition: PartitionSpec) -> ErrorCode:
    """Returns the error code of a partition in a response that names its leader."""
    if partition.leader in reachable:
        return ErrorCode.NONE
    return ErrorCode.LISTENER_NOT_FOUND if partition.leader in online else ErrorCode.LEADER_NOT_AVAILABLE


def leader_told(reachable: frozenset[SpuId], partition: PartitionSpec) -> SpuId:
    """Returns the leader if the client can reach it, otherwise NO_LEADER.

    Some clients fail if a leader is not among the brokers.
    """
    return partition.leader if partition.leader in reachable else NO_LEADER


def in_sync_told(online: frozenset[SpuId], partition: PartitionSpec) -> list[int]:
    """Returns the live replicas that are online, or all live replicas if none is, as Kafka does.

    An offline replica may stay in the stored live replica set, so that it can be elected when it returns.
    """
    live = partition.live_replicas
    if online.issuperset(live):
        return list(live)
    return [spu for spu in live if spu in online] or list(live)


def electable_told(online: frozenset[SpuId], partition: PartitionSpec) -> list[int]:
    """Returns the other live replicas, which are offline but have everything committed (Kafka's ELR)."""
    in_sync = in_sync_told(online, partition)
    return [spu for spu in partition.live_replicas if spu not in in_sync]
