"""Which controllers an SPU has at the moment, and what waits in them, for people who ask the SPU itself."""

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
    """Of one that has not said what it has in this epoch, all that is in the log may have to be sent."""
    waiting_records: dict[SpuId, list[int]] = {}
    for replica in replicas:
        log, spec, lags = replica.log, replica.spec, lags_of_followers(replica)
        for spu in spec.replicas if replica.is_leader else ():
            if spu != spec.leader:
                waiting_records.setdefault(spu, []).append(lags.get(spu, log.log_end - log.log_start))
    for spu, counts in waiting_records.items():
        yield FollowerOfThis(spu, len(counts), links.is_linked(spu, from_leader=False), sum(counts))
