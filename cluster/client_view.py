"""Derives what clients are told about SPUs, leaders and replicas, the same for all requests."""

import math
from typing import NamedTuple

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId

from .cluster import Cluster
from .specs import NO_LEADER, PartitionSpec

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
NOBODY = -1


class ConnectedListener(Struct, frozen=True):
    """The listener to which a client has connected."""

    name: str
    advertised: tuple[str, int]
    """The host and port to advertise to this client."""


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

    SPUs that went offline at or after `lost_since` are included. The address of this SPU is the one that the client has
    reached, unless the mirror has an address (see `MirrorUpdater`).
    """
    found = []
    for spu_id in sorted(cluster.spus):
        spu = cluster.spus[spu_id]
        endpoint = spu.endpoint(listener.name)
        is_named = spu.online or spu_id == this or cluster.lost_at.get(spu_id, -math.inf) >= lost_since
        if endpoint is not None and is_named:
            found.append(Broker(spu_id, endpoint.host, endpoint.port, spu.rack))
        elif spu_id == this:
            found.append(Broker(spu_id, *listener.advertised, spu.rack))
    return found


def online_spus(cluster: Cluster) -> frozenset[SpuId]:
    """Returns the SPUs that are online; a handler calls this once per request and passes it to the functions below."""
    return frozenset(spu.id for spu in cluster.spus.values() if spu.online)


def offline_replicas(online: frozenset[SpuId], partition: PartitionSpec) -> list[int]:
    """Returns the replicas on SPUs that are offline."""
    if online.issuperset(partition.replicas):
        return []
    return [spu for spu in partition.replicas if spu not in online]


def leader_error(online: frozenset[SpuId], partition: PartitionSpec) -> ErrorCode:
    """Returns the error code of a partition in a response to Metadata."""
    return ErrorCode.NONE if partition.leader in online else ErrorCode.LEADER_NOT_AVAILABLE


def leader_told(online: frozenset[SpuId], partition: PartitionSpec) -> SpuId:
    """Returns the leader, or NO_LEADER if it is offline: some clients fail if a leader is not among the brokers."""
    return partition.leader if partition.leader in online else NO_LEADER


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
