"""What clients are told about the cluster, whichever request they ask with."""

import math
from typing import NamedTuple

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId

from .cluster import Cluster
from .specs import NO_LEADER, PartitionSpec

TOPIC_OPERATIONS = 0b1101_1111_1000
"""Read, write, create, delete, alter, describe and the two for configs: without access control all that there are."""
CLUSTER_OPERATIONS = 0b1_1111_1010_0000
"""Create, alter, describe, cluster action, the two for configs, idempotent write."""
GROUP_OPERATIONS = 0b1101_0100_1000
"""Read, delete, describe and the two for configs."""
OPERATIONS_UNKNOWN = -(2**31)
NAMED_SECONDS = 9.0
"""For so long clients are told where an SPU was that has gone: as long as Kafka takes to miss a broker. Most come back
sooner, and clients that drop a broker and its connections in the middle of an election lose time by it, or more."""
NOBODY = -1


class ConnectedListener(Struct, frozen=True):
    """The listener a client came in on, as that client should be told about it."""

    name: str
    advertised: tuple[str, int]


class Broker(NamedTuple):
    """An SPU by its address, for a client that came in on a certain listener."""

    id: SpuId
    host: str
    port: int
    rack: str | None


def brokers(
    cluster: Cluster, this: SpuId, listener: ConnectedListener, *, lost_since: float = math.inf
) -> list[Broker]:
    """The SPUs that a client on this listener can reach, by id; and those lost since then: since -inf all.

    This SPU is where the client has just reached it, unless its mirror has an address of its own: see `MirrorUpdater`.
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
    """To be asked for once per request: what is said of each partition is looked up in it."""
    return frozenset(spu.id for spu in cluster.spus.values() if spu.online)


def offline_replicas(online: frozenset[SpuId], partition: PartitionSpec) -> list[int]:
    if online.issuperset(partition.replicas):
        return []
    return [spu for spu in partition.replicas if spu not in online]


def leader_error(online: frozenset[SpuId], partition: PartitionSpec) -> ErrorCode:
    return ErrorCode.NONE if partition.leader in online else ErrorCode.LEADER_NOT_AVAILABLE


def leader_told(online: frozenset[SpuId], partition: PartitionSpec) -> SpuId:
    """Nobody when it is away: clients look for whoever is named among the brokers, and some fail over its absence."""
    return partition.leader if partition.leader in online else NO_LEADER


def in_sync_told(online: frozenset[SpuId], partition: PartitionSpec) -> list[int]:
    """The live replicas that are there. One that is away may stay in the stored set, so that it can be elected when it
    returns; when none is there, all are named, as Kafka goes on to name the last ones."""
    live = partition.live_replicas
    if online.issuperset(live):
        return list(live)
    return [spu for spu in live if spu in online] or list(live)


def electable_told(online: frozenset[SpuId], partition: PartitionSpec) -> list[int]:
    """The other live replicas: away, and with all that was committed (Kafka's eligible leader replicas)."""
    in_sync = in_sync_told(online, partition)
    return [spu for spu in partition.live_replicas if spu not in in_sync]
