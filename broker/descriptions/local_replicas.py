"""Describes the replicas of this SPU for the Streaming Controller."""

from collections.abc import Iterator

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    EpochStart,
)
from tailrace.storage.directory.checkpoints import ReplicaKey

EPOCHS_MAX = 1000
"""How many epochs of one replica are described at most."""


def describe_replicas(replicas: ReplicaRegistry, request: DescribeReplicasRequest) -> DescribeReplicasResponse:
    """Describes the requested replicas, or all. Replicas that are not on this SPU are left out."""
    epochs_max = max(0, min(request.epochs_max, EPOCHS_MAX))
    asked = {(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions}
    return DescribeReplicasResponse(
        replicas=[described for described in _all(replicas, epochs_max) if not asked or _key(described) in asked]
    )


def _key(described: DescribedReplica) -> ReplicaKey:
    return described.topic_id, described.partition


def _all(replicas: ReplicaRegistry, epochs_max: int) -> Iterator[DescribedReplica]:
    for replica in replicas:
        yield _described(replica, epochs_max)
    for (topic_id, partition), damage in replicas.damaged.items():
        yield DescribedReplica(topic_id=topic_id, partition=partition, error_message=damage.reason)


def _described(replica: Replica, epochs_max: int) -> DescribedReplica:
    log = replica.log
    epochs = list(log.epochs) if epochs_max else []
    first = max(0, len(epochs) - epochs_max)
    return DescribedReplica(
        topic_id=replica.spec.topic_id,
        partition=replica.partition,
        is_leader=replica.is_leader,
        log_start=log.log_start,
        log_end=log.log_end,
        high_watermark=replica.high_watermark,
        size_bytes=log.size_bytes,
        error_message=replica.offline_reason,
        epoch=replica.spec.epoch,
        epochs=[EpochStart(each.epoch, each.start) for each in epochs[first:]],
        older_epochs=first,
    )
