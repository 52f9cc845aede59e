"""Describes the leaders and followers of an SPU and the records that wait for replication."""

from collections.abc import Iterator

from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_spu import DescribeSpuResponse, FollowerOfLeader, FollowerOfThis

from .replica_counts import lags_of_followers


def describe_spu(log_directory: str, replicas: ReplicaRegistry, links: PeerLinks) -> DescribeSpuResponse:
    return DescribeSpuResponse(
        log_directory,
        sum(replica.is_leader for replica in replicas),
        [
            FollowerOfLeader(leader, count, links.is_linked(leader, from_leader=True), links.dialled_links(leader))
            for leader, count in sorted(links.followed().items())
        ],
        sorted(_followers(replicas, links), key=lambda follower: follower.spu_id),
    )


def _followers(replicas: ReplicaRegistry, links: PeerLinks) -> Iterator[FollowerOfThis]:
    """Yields the followers. If the log end of a follower is unknown, the whole log may have to be sent to it."""
    waiting_records: dict[SpuId, list[int]] = {}
    for replica in replicas:
        log, spec, lags = replica.log, replica.spec, lags_of_followers(replica)
        for spu in spec.replicas if replica.is_leader else ():
            if spu != spec.leader:
                waiting_records.setdefault(spu, []).append(lags.get(spu, log.log_end - log.log_start))
    for spu, counts in waiting_records.items():
        yield FollowerOfThis(spu, len(counts), links.is_linked(spu, from_leader=False), sum(counts))
