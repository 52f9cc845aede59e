"""How the replicas here stand, as the Streaming Controller asks on behalf of people who look at partitions."""

from collections.abc import Iterator

from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from tailrace.storage.checkpoints import ReplicaKey

from .replicas import Replica, Replicas


def describe_replicas(replicas: Replicas, request: DescribeReplicasRequest) -> DescribeReplicasResponse:
    """Those that were asked for, or all; what is not here is left out."""
    asked = {(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions}
    return DescribeReplicasResponse(
        replicas=[described for described in _all(replicas) if not asked or _key(described) in asked]
    )


def _key(described: DescribedReplica) -> ReplicaKey:
    return described.topic_id, described.partition


def _all(replicas: Replicas) -> Iterator[DescribedReplica]:
    for replica in replicas:
        yield _described(replica)
    for (topic_id, partition), damage in replicas.damaged.items():
        yield DescribedReplica(topic_id=topic_id, partition=partition, error_message=damage.reason)


def _described(replica: Replica) -> DescribedReplica:
    log = replica.log
    return DescribedReplica(
        topic_id=replica.spec.topic_id,
        partition=replica.partition,
        is_leader=replica.is_leader,
        log_start=log.log_start,
        log_end=log.log_end,
        high_watermark=replica.high_watermark,
        size_bytes=log.size_bytes,
        error_message=replica.offline_reason,
    )
